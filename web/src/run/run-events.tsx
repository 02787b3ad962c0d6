/** The events a run was made of. A payload is loaded on demand. */

import { useState } from "react";
import { count, time } from "../format";
import { Payload } from "../payload/payload";
import { Said } from "./facts";
import type { RunDetail } from "./use-run";

/** Events shown at first, and with each "show more". */
const STEP = 50;

/** The list. */
export function RunEvents({ run }: { run: RunDetail }) {
  const [shown, setShown] = useState(STEP);
  return (
    <div className="stack">
      {run.events_truncated && (
        <p className="notice warn">
          This run has more events than the {count(run.events.length)} here. Its input, output and figures are of these.
        </p>
      )}
      {run.events.length === 0 && <p className="soft">The events of this run are not kept any more.</p>}
      {run.events.slice(0, shown).map((event) => (
        <RunEvent key={event.event_id} event={event} />
      ))}
      {shown < run.events.length && (
        <div className="row">
          <button type="button" onClick={() => setShown(shown + STEP)}>
            Show {count(Math.min(STEP, run.events.length - shown))} more
          </button>
          <span className="soft small">
            {count(shown)} of {count(run.events.length)} events
          </span>
        </div>
      )}
    </div>
  );
}

function RunEvent({ event }: { event: RunDetail["events"][number] }) {
  const [isOpen, setIsOpen] = useState(false);
  const delayMs = Date.parse(event.received_at) - Date.parse(event.timestamp);
  return (
    <details className="card" onToggle={(toggled) => setIsOpen(toggled.currentTarget.open)}>
      <summary>
        <b>
          <Said text={event.name} />
        </b>{" "}
        <span className="number">{time(event.timestamp)}</span>{" "}
        <span className="soft small">
          received {time(event.received_at)}
          {delayMs < 0 && ", before its own time: the sender's clock is ahead"}
        </span>
      </summary>
      {isOpen && (
        <div className="stack" style={{ paddingTop: 10 }}>
          <span className="soft small">
            Event <Said text={event.event_id} />
          </span>
          <Payload value={event.payload} label="Payload" view="json" />
        </div>
      )}
    </details>
  );
}
