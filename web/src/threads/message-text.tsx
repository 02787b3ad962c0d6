/** What was said, as text: its own direction, code in blocks, the rest of something long on demand. */

import { useMemo } from "react";
import { count } from "../format";
import { piecesOf, STEP_CHARS } from "../payload/fold";
import { partsOf } from "./conversation";
import styles from "./thread.module.css";

/** Characters of a message shown at first. */
export const FIRST = 1_500;

type Props = {
  text: string;
  /** How often more was asked for. It is kept outside: a message that is scrolled away and back stays as it was. */
  steps: number;
  onSteps: (steps: number) => void;
};

/** The text. */
export function MessageText({ text, steps, onSteps }: Props) {
  const shown = useMemo(() => piecesOf(text, FIRST, steps + 1).join(""), [text, steps]);
  const parts = useMemo(() => partsOf(shown), [shown]);
  const left = text.length - shown.length;
  return (
    <div className={styles.text}>
      {parts.length === 0 && <span className="soft small">No text</span>}
      {parts.map((part, index) =>
        part.kind === "code" ? (
          // biome-ignore lint/suspicious/noArrayIndexKey: a part is known by its place alone
          <pre key={index} dir="ltr" className={styles.code} data-language={part.language || undefined}>
            {part.text}
          </pre>
        ) : (
          // biome-ignore lint/suspicious/noArrayIndexKey: a part is known by its place alone
          <div key={index} dir="auto" className={styles.said}>
            {part.text}
          </div>
        ),
      )}
      {(left > 0 || steps > 0) && (
        <div className={styles.more}>
          {left > 0 && (
            <button type="button" onClick={() => onSteps(steps + 1)}>
              Show {count(Math.min(left, STEP_CHARS))} more
            </button>
          )}
          {steps > 0 && (
            <button type="button" className="quiet" onClick={() => onSteps(0)}>
              Fold
            </button>
          )}
          <span className="soft small">
            {count(shown.length)} of {count(text.length)} characters
          </span>
        </div>
      )}
    </div>
  );
}
