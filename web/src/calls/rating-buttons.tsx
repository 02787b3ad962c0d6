/** Two buttons that rate a model call. */

import { markOf, useMark } from "../runs/use-marks";
import type { Run } from "../runs/use-runs";
import styles from "./calls.module.css";

const RATINGS = [
  ["positive", "Good answer", "M7 11v9M3 11h4l4-8a2 2 0 0 1 2 2v4h5.5a2 2 0 0 1 2 2.4l-1.4 7a2 2 0 0 1-2 1.6H7"],
  [
    "negative",
    "Bad answer",
    "M17 13V4M21 13h-4l-4 8a2 2 0 0 1-2-2v-4H5.500a2 2 0 0 1-2-2.4l1.400-7A2 2 0 0 1 6.900 4H17",
  ],
] as const;

/** The buttons; pressed is what was said last. */
export function RatingButtons({ run }: { run: Run }) {
  const mark = useMark();
  return (
    <fieldset className={styles.rating}>
      <legend className="unseen">Feedback on {(run.name || run.run_id).slice(0, 80)}</legend>
      {RATINGS.map(([rating, label, path]) => (
        <button
          key={rating}
          type="button"
          aria-label={label}
          title={label}
          aria-pressed={run.feedback?.rating === rating}
          onClick={() => mark.mutate(markOf(run, { kind: "feedback", rating }))}
        >
          <svg viewBox="0 0 24 24" width="16" height="16" aria-hidden="true" focusable="false">
            <path d={path} fill="none" stroke="currentColor" strokeWidth="2" strokeLinejoin="round" />
          </svg>
        </button>
      ))}
      <span role="status" className={mark.isError ? styles.wrong : "unseen"}>
        {mark.isError ? mark.error.message : mark.isSuccess && "Feedback given"}
      </span>
    </fieldset>
  );
}
