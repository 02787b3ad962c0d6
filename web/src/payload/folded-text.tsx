/** Text as it was reported, with its own direction. What is folded away is not in the page. */

import { useMemo, useState } from "react";
import { bytes, count } from "../format";
import { FIRST_CHARS, piecesOf, STEP_CHARS, utf8Bytes } from "./fold";
import styles from "./payload.module.css";

type Props = {
  text: string;
  /** Characters shown at first. */
  first?: number;
  /** Whether letters are all of one width. */
  isMono?: boolean;
};

/** The text; more of it comes in steps. */
export function FoldedText({ text, first = FIRST_CHARS, isMono = false }: Props) {
  const [steps, setSteps] = useState(0);
  const pieces = useMemo(() => piecesOf(text, first, steps + 1), [text, first, steps]);
  const shown = pieces.reduce((sum, piece) => sum + piece.length, 0);
  const left = text.length - shown;
  return (
    <div className={isMono ? styles.mono : styles.text}>
      {pieces.map((piece, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: pieces are only ever added at the end
        <div key={index} dir="auto" className={styles.piece}>
          {piece}
        </div>
      ))}
      {(left > 0 || steps > 0) && (
        <div className={styles.more}>
          {left > 0 && (
            <button type="button" onClick={() => setSteps(steps + 1)}>
              Show {count(Math.min(left, STEP_CHARS))} more
            </button>
          )}
          {steps > 0 && (
            <button type="button" className="quiet" onClick={() => setSteps(0)}>
              Fold
            </button>
          )}
          <span className="soft small">
            {count(shown)} of {count(text.length)} characters ({bytes(utf8Bytes(text))})
          </span>
        </div>
      )}
    </div>
  );
}
