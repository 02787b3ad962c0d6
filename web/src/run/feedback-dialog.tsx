/** Judging a run: well or badly done, and why. */

import { useState } from "react";
import { Dialog } from "../parts/dialog";
import { FormEnd } from "../parts/form-end";
import { type Act, isSame, type Rating } from "../runs/marks";
import { markOf } from "../runs/use-marks";
import type { Marks } from "./use-marks";
import type { RunDetail } from "./use-run";

/** Characters of a comment; an event has room for many more. */
const MAX_CHARS = 4_000;

type Props = { run: RunDetail; marks: Marks; onClose: () => void };

/** The form. */
export function FeedbackDialog({ run, marks, onClose }: Props) {
  const [rating, setRating] = useState<Rating>();
  const [comment, setComment] = useState("");
  const [sent, setSent] = useState<Act>();
  const { feedback } = marks;
  const give = () => {
    if (!rating) return;
    const words = comment.trim();
    const mark = { kind: "feedback", rating, ...(words ? { comment: words } : {}) } as const;
    // The same feedback sent again is the same event; other feedback has another id.
    const act = sent && isSame(sent.mark, mark) ? sent : markOf(run, mark);
    setSent(act);
    feedback.mutate(act, { onSuccess: onClose });
  };
  return (
    <Dialog title="Give feedback" onClose={onClose}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          give();
        }}
      >
        <fieldset style={{ border: 0, margin: 0, padding: 0 }} className="row">
          <legend className="unseen">Rating</legend>
          <label className="line">
            <input type="radio" name="rating" required onChange={() => setRating("positive")} />
            Positive
          </label>
          <label className="line">
            <input type="radio" name="rating" required onChange={() => setRating("negative")} />
            Negative
          </label>
        </fieldset>
        <label>
          Comment (optional)
          <textarea
            rows={4}
            dir="auto"
            maxLength={MAX_CHARS}
            value={comment}
            onChange={(event) => setComment(event.target.value)}
          />
        </label>
        <FormEnd
          error={feedback.error}
          isPending={feedback.isPending}
          verb="Give feedback"
          meanwhile="Sending…"
          onCancel={onClose}
        />
      </form>
    </Dialog>
  );
}
