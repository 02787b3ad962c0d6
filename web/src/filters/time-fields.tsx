/** From and to, in the reader's zone: what dragging over a chart does, done with the keyboard. */

import { useState } from "react";
import { boundOf, fieldOf } from "./local-time";

type Props = {
  /** The bounds in force, in milliseconds. */
  from: number | undefined;
  to: number | undefined;
  /** What was chosen, where bounds move by themselves: what is being typed is kept until something else is chosen. */
  choice?: string;
  /** New bounds in ISO 8601; either may be open. */
  onChange: (from: string | undefined, to: string | undefined) => void;
};

/** What the user typed over the active bounds. */
type Typed = { start?: string; end?: string };

/** The fields. What was typed is forgotten when other bounds are chosen elsewhere. */
export function TimeFields({ from, to, choice = `${from} ${to}`, onChange }: Props) {
  const [typed, setTyped] = useState<Typed>({});
  const [typedFor, setTypedFor] = useState(choice);
  if (typedFor !== choice) {
    setTypedFor(choice);
    setTyped({});
  }
  const start = typed.start ?? fieldOf(from);
  const end = typed.end ?? fieldOf(to);
  const isWrong = start !== "" && end !== "" && start > end;
  return (
    <form
      className="row"
      style={{ alignItems: "end" }}
      aria-label="Time range"
      onSubmit={(event) => {
        event.preventDefault();
        if (isWrong) return;
        onChange(boundOf(start, from), boundOf(end, to, true));
        setTyped({});
      }}
    >
      <label>
        From
        <input
          type="datetime-local"
          step="1"
          value={start}
          max={end}
          onChange={(event) => setTyped({ ...typed, start: event.target.value })}
        />
      </label>
      <label>
        To
        <input
          type="datetime-local"
          step="1"
          value={end}
          min={start}
          onChange={(event) => setTyped({ ...typed, end: event.target.value })}
        />
      </label>
      <button type="submit" disabled={isWrong}>
        Apply
      </button>
    </form>
  );
}
