/** Which threads are listed. */

import { useState } from "react";
import { Choice } from "../filters/choice";
import { milliseconds } from "../filters/local-time";
import type { RunFilter, Single } from "../filters/run-filter";
import { TimeFields } from "../filters/time-fields";
import { useFacets } from "../filters/use-facets";
import styles from "./thread-filters.module.css";
import { THREAD_FILTERS } from "./use-threads";

type Props = { filter: RunFilter; onChange: (change: (filter: RunFilter) => RunFilter) => void };

const CHOICES = [
  ["app_id", "App"],
  ["agent", "Agent"],
  ["user_email", "User"],
] as const;

/** The controls. The values offered are those that runs have; any other can be written. */
export function ThreadFilters({ filter, onChange }: Props) {
  const [isWanted, setWanted] = useState(false);
  const facets = useFacets(filter.project_id ? { project_id: filter.project_id } : {}, isWanted);
  const note = facets.isPending ? "Loading values…" : facets.isError ? "The values could not be loaded." : undefined;
  const set = (name: Single, value: string | undefined) =>
    onChange(({ [name]: _old, ...rest }) => (value ? { ...rest, [name]: value } : rest));
  const isFiltered = THREAD_FILTERS.some((name) => filter[name]);
  return (
    <search className={styles.bar} aria-label="Filter">
      {CHOICES.map(([name, label]) => (
        <Choice
          key={name}
          label={label}
          chosen={filter[name] === undefined ? [] : [filter[name]]}
          values={facets.data?.facets[name]?.values ?? []}
          note={note}
          onWanted={() => setWanted(true)}
          onChange={([value]) => set(name, value)}
        />
      ))}
      <label>
        Feedback
        <select value={filter.feedback ?? ""} onChange={(event) => set("feedback", event.target.value)}>
          <option value="">with or without</option>
          <option value="positive">positive</option>
          <option value="negative">negative</option>
          <option value="any">any</option>
          <option value="none">none</option>
        </select>
      </label>
      <TimeFields
        from={milliseconds(filter.from)}
        to={milliseconds(filter.to, true)}
        onChange={(from, to) =>
          onChange(({ from: _from, to: _to, ...rest }) => ({ ...rest, ...(from && { from }), ...(to && { to }) }))
        }
      />
      {isFiltered && (
        <button
          type="button"
          onClick={() => onChange(({ project_id }) => (project_id ? { project_id } : {}))}
          title="Clears the filter"
        >
          Clear all
        </button>
      )}
    </search>
  );
}
