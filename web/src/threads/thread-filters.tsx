/** Which threads are listed. */

import { useId, useState } from "react";
import type { RunFilter } from "../filters/run-filter";
import { readTime } from "../parts/local-time";
import { TimeFields } from "../parts/time-fields";
import { THREAD_FILTERS, useThreadFacets } from "./use-threads";

/** Values offered at most. */
const OFFERED = 100;

type Props = { filter: RunFilter; onChange: (change: (filter: RunFilter) => RunFilter) => void };

/** The controls. */
export function ThreadFilters({ filter, onChange }: Props) {
  const facets = useThreadFacets(filter.project_id).data?.facets;
  const values = (name: string) => facets?.[name]?.values.map((one) => one.value) ?? [];
  const set = (name: keyof RunFilter, value: string) =>
    onChange(({ [name]: _old, ...rest }) => (value ? { ...rest, [name]: value } : rest));
  const isFiltered = THREAD_FILTERS.some((name) => filter[name]);
  return (
    <div className="row" style={{ alignItems: "end" }}>
      <ValueField label="App" value={filter.app_id} offered={values("app_id")} onSet={(v) => set("app_id", v)} />
      <ValueField label="Agent" value={filter.agent} offered={values("agent")} onSet={(v) => set("agent", v)} />
      <ValueField
        label="User"
        value={filter.user_email}
        offered={values("user_email")}
        onSet={(v) => set("user_email", v)}
      />
      <label>
        Feedback
        <select value={filter.feedback ?? ""} onChange={(event) => set("feedback", event.target.value)}>
          <option value="">All</option>
          <option value="positive">Positive</option>
          <option value="negative">Negative</option>
          <option value="any">Any</option>
          <option value="none">None</option>
        </select>
      </label>
      <TimeFields
        from={readTime(filter.from)}
        to={readTime(filter.to, true)}
        onChange={(from, to) =>
          onChange(({ from: _from, to: _to, ...rest }) => ({ ...rest, ...(from && { from }), ...(to && { to }) }))
        }
      />
      {isFiltered && (
        <button
          type="button"
          onClick={() => onChange(({ project_id }) => (project_id ? { project_id } : {}))}
          title="Shows all threads again"
        >
          Reset
        </button>
      )}
    </div>
  );
}

type FieldProps = { label: string; value: string | undefined; offered: string[]; onSet: (value: string) => void };

/** A field that offers values and takes any other too: those of the list are not all there are. */
function ValueField({ label, value = "", offered, onSet }: FieldProps) {
  const [text, setText] = useState(value);
  const [inForce, setInForce] = useState(value);
  if (inForce !== value) {
    setInForce(value);
    setText(value);
  }
  const id = useId();
  const set = (chosen: string) => {
    if (chosen !== value) onSet(chosen);
  };
  return (
    <label>
      {label}
      <input
        value={text}
        list={id}
        size={12}
        maxLength={512}
        placeholder="All"
        dir="auto"
        onChange={(event) => {
          setText(event.target.value);
          if (event.target.value === "" || offered.includes(event.target.value)) set(event.target.value);
        }}
        onBlur={() => set(text)}
        onKeyDown={(event) => event.key === "Enter" && set(text)}
      />
      <datalist id={id}>
        {offered.slice(0, OFFERED).map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
    </label>
  );
}
