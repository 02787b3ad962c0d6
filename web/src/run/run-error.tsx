/** What went wrong in a run, with where it came from. */

import type { Shapes } from "../api/client";
import { FoldedText } from "../payload/folded-text";

/** Characters of a message shown at first. */
const MESSAGE_CHARS = 1_000;

/** The error; its stack is folded. */
export function RunErrorNotice({ error }: { error: Shapes["RunError"] }) {
  return (
    <section className="notice bad stack" aria-label="Error" style={{ gap: 6 }}>
      <div>
        {error.name && (
          <b>
            <bdi>{error.name.slice(0, 200)}</bdi>
          </b>
        )}
        <FoldedText text={error.message} first={MESSAGE_CHARS} />
      </div>
      {error.stack && (
        <details>
          <summary className="small">Stack</summary>
          <FoldedText text={error.stack} isMono />
        </details>
      )}
    </section>
  );
}
