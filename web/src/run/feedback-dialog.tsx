/** Judging a run: well or badly done, and why. */

import { useState } from "react";
import { Dialog } from "../parts/dialog";
import { Failure } from "../parts/notice";
import { freshId, type Given, type Marks } from "./use-marks";

/** Characters of a comment; an event has room for many more. */
const MAX_CHARS = 4_000;

/** The form. */
export function FeedbackDialog({ marks, onClose }: { marks: Marks; onClose: () => void }) {
  const [rating, setRating] = useState<Given["rating"]>();
  const [comment, setComment] = useState("");
  const [sent, setSent] = useState<Given>();
  const { feedback } = marks;
  const give = () => {
    if (!rating) return;
    // The same judgement sent again is the same event; another one has another identity.
    const isSame = sent?.rating === rating && sent.comment === comment.trim();
    const one: Given = isSame
      ? sent
      : { rating, comment: comment.trim(), event_id: freshId(), timestamp: new Date().toISOString() };
    setSent(one);
    feedback.mutate(one, { onSuccess: onClose });
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
        {feedback.isError && <Failure error={feedback.error} />}
        <div className="row">
          <button type="submit" className="primary" disabled={feedback.isPending}>
            {feedback.isPending ? "Sending…" : "Give feedback"}
          </button>
          <button type="button" onClick={onClose}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}
