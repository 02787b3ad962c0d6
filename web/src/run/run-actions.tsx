/** What can be done with a run. */

import { useState } from "react";
import { Failure } from "../parts/notice";
import { markOf } from "../runs/use-marks";
import { CompareDialog } from "./compare-dialog";
import { CopyDialog } from "./copy-dialog";
import { FeedbackDialog } from "./feedback-dialog";
import type { Marks } from "./use-marks";
import type { RunDetail } from "./use-run";

type Props = { run: RunDetail; projectId: string | undefined; marks: Marks };

/** The buttons, and the dialog of the one that was pressed. */
export function RunActions({ run, projectId, marks }: Props) {
  const [asked, setAsked] = useState<"feedback" | "compare" | "copy">();
  const close = () => setAsked(undefined);
  const isSaved = marks.saved ?? run.saved;
  return (
    <>
      <button type="button" onClick={() => setAsked("feedback")}>
        Feedback
      </button>
      <button
        type="button"
        aria-pressed={isSaved}
        disabled={marks.save.isPending}
        title={isSaved ? "Part of the dataset, kept past retention" : "Keep it past retention, as part of the dataset"}
        onClick={() => marks.sendSave(markOf(run, { kind: isSaved ? "unsave" : "save" }))}
      >
        {isSaved ? "★ Saved" : "☆ Save"}
      </button>
      <button type="button" onClick={() => setAsked("compare")}>
        Compare
      </button>
      <button type="button" onClick={() => setAsked("copy")}>
        Copy
      </button>
      {marks.save.isError && (
        <Failure error={marks.save.error} again={() => marks.save.variables && marks.sendSave(marks.save.variables)} />
      )}
      {asked === "feedback" && <FeedbackDialog run={run} marks={marks} onClose={close} />}
      {asked === "compare" && <CompareDialog run={run} projectId={projectId} onClose={close} />}
      {asked === "copy" && <CopyDialog run={run} onClose={close} />}
    </>
  );
}
