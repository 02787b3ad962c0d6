/** From and to, in the reader's zone: what dragging over a chart does, done with the keyboard. */

import { useState } from "react";
import { fromField, toField } from "./local-time";

type Props = {
  /** The bounds in force, in milliseconds. */
  from: number | undefined;
  to: number | undefined;
  /** New bounds in ISO 8601; either may be open. */
  onChange: (from: string | undefined, to: string | undefined) => void;
};

/** The fields. They are written anew when the bounds change elsewhere. */
export function TimeFields({ from, to, onChange }: Props) {
  const [start, setStart] = useState(fieldOf(from));
  const [end, setEnd] = useState(fieldOf(to));
  const [inForce, setInForce] = useState({ from, to });
  if (inForce.from !== from || inForce.to !== to) {
    setInForce({ from, to });
    setStart(fieldOf(from));
    setEnd(fieldOf(to));
  }
  const isWrong = start !== "" && end !== "" && start > end;
  return (
    <form
      className="row"
      style={{ alignItems: "end" }}
      aria-label="Time range"
      onSubmit={(event) => {
        event.preventDefault();
        if (!isWrong) onChange(fromField(start), endOf(end));
      }}
    >
      <label>
        From
        <input
          type="datetime-local"
          step="1"
          value={start}
          max={end}
          onChange={(event) => setStart(event.target.value)}
        />
      </label>
      <label>
        To
        <input
          type="datetime-local"
          step="1"
          value={end}
          min={start}
          onChange={(event) => setEnd(event.target.value)}
        />
      </label>
      <button type="submit" disabled={isWrong}>
        Apply
      </button>
    </form>
  );
}

function fieldOf(ms: number | undefined): string {
  return ms !== undefined && Number.isFinite(ms) ? toField(String(ms)) : "";
}

/** The last moment of the second in a field. */
function endOf(field: string): string | undefined {
  const iso = fromField(field);
  return iso?.replace(/\.000Z$/, ".999Z");
}
