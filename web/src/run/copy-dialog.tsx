/** What of a run can be taken along: its JSON, a command that reads it, one that reports an equal run, its address. */

import { useMemo } from "react";
import { bytes } from "../format";
import { CopyButton } from "../parts/copy-button";
import { Dialog } from "../parts/dialog";
import { randomId } from "../parts/random-id";
import { textOf, utf8Bytes } from "../payload/fold";
import { FoldedText } from "../payload/folded-text";
import { eventsOf, readCommand, reportCommand } from "./curl";
import type { RunDetail } from "./use-run";

/** Characters of a command shown at first. */
const COMMAND_CHARS = 400;

/** The choice. */
export function CopyDialog({ run, onClose }: { run: RunDetail; onClose: () => void }) {
  const { json, read, report } = useMemo(() => {
    const { origin } = window.location;
    const again = `${run.run_id.slice(0, 200)}-again-${randomId().slice(0, 8)}`;
    return { json: textOf(run), read: readCommand(origin, run), report: reportCommand(origin, eventsOf(run, again)) };
  }, [run]);
  return (
    <Dialog title="Copy" onClose={onClose}>
      <div className="row">
        <span className="grow">Link to this view</span>
        <CopyButton label="Copy link" text={() => window.location.href} />
      </div>
      <div className="row">
        <span className="grow">The run as JSON, {bytes(utf8Bytes(json))}</span>
        <CopyButton label="Copy JSON" text={json} />
      </div>
      <div className="row">
        <span className="grow">Command that reads this run</span>
        <CopyButton label="Copy curl to read" text={read} />
      </div>
      <div className="row">
        <span className="grow">Command that reports a copy of this run, without its children</span>
        <CopyButton label="Copy curl to report" text={report} />
      </div>
      <FoldedText text={report} first={COMMAND_CHARS} isMono />
      <p className="soft small">
        The commands use the key in <code>SPINDLE_API_KEY</code>. The copy gets a new id.
      </p>
      <div className="row">
        <button type="button" onClick={onClose}>
          Close
        </button>
      </div>
    </Dialog>
  );
}
