/** The model calls of a run that has several of its own. */

import { useState } from "react";
import { count, time } from "../format";
import { Wide } from "../parts/wide";
import { Said } from "./facts";
import { costSaid, tokensSaid } from "./figures";
import type { RunDetail } from "./use-run";

/** Calls shown at first, and with each "show more". */
const STEP = 100;

/** The table, by time. */
export function RunCalls({ run }: { run: RunDetail }) {
  const [shown, setShown] = useState(STEP);
  const { calls } = run;
  return (
    <div className="stack">
      {run.events_truncated && (
        <p className="notice warn">This run has more model calls than the {count(calls.length)} here.</p>
      )}
      <Wide label="Model calls">
        <table className="plain">
          <thead>
            <tr>
              <th scope="col">Time</th>
              <th scope="col">Model</th>
              <th scope="col">Tokens</th>
              <th scope="col">Cost</th>
            </tr>
          </thead>
          <tbody>
            {calls.slice(0, shown).map((call, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: an event id may be used twice
              <tr key={index}>
                <td className="number">{time(call.at)}</td>
                <td>{call.model ? <Said text={call.model} /> : "not named"}</td>
                <td>{tokensSaid(call) ?? "none known"}</td>
                <td>{costSaid(call)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
      {shown < calls.length && (
        <div className="row">
          <button type="button" onClick={() => setShown(shown + STEP)}>
            Show {count(Math.min(STEP, calls.length - shown))} more
          </button>
          <span className="soft small">
            {count(shown)} of {count(calls.length)} calls
          </span>
        </div>
      )}
    </div>
  );
}
