/** The switch for live updates, and what it says. */

import { count } from "../format";
import styles from "./live-bar.module.css";
import type { LiveRuns } from "./use-live-runs";

const STATES = { off: "", opening: "Connecting…", on: "Live", waiting: "Connection lost, trying again…" } as const;
const GAPS = {
  server: "Some changes are missing: there were too many, or the connection was lost for too long.",
  opened: "Changes before you switched live on can be missing.",
  reopened: "The connection was lost: changes in between can be missing.",
  "too many": "There are more changes than can be shown.",
} as const;

/** The switch. */
export function LiveSwitch({
  live,
  isOn,
  onChange,
}: {
  live: LiveRuns;
  isOn: boolean;
  onChange: (on: boolean) => void;
}) {
  return (
    <label className="line">
      <input type="checkbox" checked={isOn} onChange={(event) => onChange(event.target.checked)} />
      Live
      {isOn && live.state !== "on" && <span className="soft small">{STATES[live.state]}</span>}
      {isOn && live.state === "on" && live.isReadAgain && (
        <span
          className="soft small"
          title="Runs that no longer match the filter leave the list only while its top is visible"
        >
          Reloaded every 5 s at the top
        </span>
      )}
    </label>
  );
}

/** New runs that wait, and that something is missing: over the table, which must not move while the user reads. */
export function LiveNotes({ live }: { live: LiveRuns }) {
  return (
    <>
      <p className="unseen" aria-live="polite">
        {live.said}
      </p>
      {(live.gap || live.waiting > 0) && (
        <div className={styles.over}>
          {live.waiting > 0 && (
            <button type="button" className="primary" onClick={live.show}>
              <span aria-hidden="true">↑</span> {count(live.waiting)} new {live.waiting === 1 ? "run" : "runs"}
            </button>
          )}
          {live.gap && (
            <div className={`notice warn row ${styles.gap}`} role="status">
              <span className="grow">{GAPS[live.gap]}</span>
              <button type="button" onClick={live.reload}>
                Load again
              </button>
            </div>
          )}
        </div>
      )}
    </>
  );
}
