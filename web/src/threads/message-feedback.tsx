/** Feedback on an answer: what was given, and giving it. */

import { useState } from "react";
import { ago, time } from "../format";
import { Dialog } from "../parts/dialog";
import { FormEnd } from "../parts/form-end";
import { Failure } from "../parts/notice";
import { isSame, type Rating } from "../runs/marks";
import styles from "./thread.module.css";
import type { Feedback, useMessageFeedback } from "./use-message-feedback";

const WORDS: Record<Rating, string> = { positive: "Good", negative: "Bad" };

type Props = {
  runId: string;
  feedback: Feedback | undefined;
  /** Whether the user may give feedback. */
  mayRate: boolean;
  sending: ReturnType<typeof useMessageFeedback>;
};

/** What was given, and the buttons. */
export function MessageFeedback({ runId, feedback, mayRate, sending }: Props) {
  const [isOpen, setIsOpen] = useState(false);
  const { send, actOf } = sending;
  const own = sending.sendings.get(runId);
  const isBusy = own !== undefined && !own.error;
  return (
    <div className={styles.feedback}>
      <span aria-live="polite" className={styles.given}>
        {feedback?.rating && (
          <span
            className={`chip ${feedback.rating === "positive" ? "good" : "bad"}`}
            title={`Feedback of ${time(feedback.at)}`}
          >
            {WORDS[feedback.rating as Rating] ?? feedback.rating} answer
          </span>
        )}
        {feedback?.comment && (
          <bdi className="small" title={`${ago(feedback.at, Date.now())}`}>
            {feedback.comment.slice(0, 500)}
          </bdi>
        )}
      </span>
      {mayRate && (
        <span className={styles.rate}>
          {(["positive", "negative"] as const).map((rating) => (
            <button
              key={rating}
              type="button"
              className="quiet"
              aria-pressed={feedback?.rating === rating}
              aria-label={`${WORDS[rating]} answer`}
              disabled={isBusy}
              onClick={() => void send(actOf(runId, rating, ""))}
            >
              {WORDS[rating]}
            </button>
          ))}
          <button type="button" className="quiet" disabled={isBusy} onClick={() => setIsOpen(true)}>
            Comment…
          </button>
        </span>
      )}
      {own?.error && !isOpen && <Failure error={own.error} again={() => void send(own.act)} />}
      {isOpen && <CommentDialog runId={runId} feedback={feedback} sending={sending} onClose={() => setIsOpen(false)} />}
    </div>
  );
}

type DialogProps = Omit<Props, "mayRate"> & { onClose: () => void };

function CommentDialog({ runId, feedback, sending, onClose }: DialogProps) {
  const [rating, setRating] = useState<Rating>(feedback?.rating === "negative" ? "negative" : "positive");
  const [comment, setComment] = useState("");
  const { send, actOf } = sending;
  const own = sending.sendings.get(runId);
  const isBusy = own !== undefined && !own.error;
  return (
    <Dialog title="Feedback on this answer" onClose={onClose}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          const act = actOf(runId, rating, comment.trim());
          // Feedback sent again is the same event.
          void send(own?.error && isSame(own.act.mark, act.mark) ? own.act : act, onClose);
        }}
      >
        <fieldset className={`row ${styles.choice}`}>
          <legend className="soft small">Rating</legend>
          {(["positive", "negative"] as const).map((one) => (
            <label key={one} className="line">
              <input type="radio" name="rating" checked={rating === one} onChange={() => setRating(one)} />
              {WORDS[one]}
            </label>
          ))}
        </fieldset>
        <label>
          Comment
          <textarea rows={4} maxLength={10_000} value={comment} onChange={(event) => setComment(event.target.value)} />
        </label>
        <FormEnd error={own?.error} isPending={isBusy} verb="Send" meanwhile="Sending…" onCancel={onClose} />
      </form>
    </Dialog>
  );
}
