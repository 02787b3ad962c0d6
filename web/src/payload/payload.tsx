/** An input or an output, which is hostile text: as a conversation, as JSON or as text, whichever the reader likes. */

import { useId, useMemo, useState } from "react";
import { bytes } from "../format";
import { CopyButton } from "../parts/copy-button";
import { Conversation } from "./conversation";
import { COMPACT_CHARS, COMPACT_LINES, FIRST_CHARS, textOf, utf8Bytes } from "./fold";
import { FoldedText } from "./folded-text";
import { JsonTree } from "./json-tree";
import styles from "./payload.module.css";
import { readShape, type Shape, type View } from "./shape";

const NAMES: Record<View, string> = { chat: "Chat", json: "JSON", text: "Text" };
/** Messages of a conversation in a compact place. */
const COMPACT_MESSAGES = 4;

type Props = {
  value: unknown;
  /** What it is, such as `Input`. */
  label: string;
  /** Whether it stands in a list, beside others: then without a head, and with less of it. */
  compact?: boolean;
  /** The view, where the page keeps it; else it is kept here. */
  view?: View | undefined;
  onView?: (view: View) => void;
};

/** A payload with its size, the choice of views and a copy button. */
export function Payload({ value, label, compact = false, view, onView }: Props) {
  const id = useId();
  const [kept, setKept] = useState<View>();
  const shape = useMemo(() => readShape(value), [value]);
  const text = useMemo(() => textOf(value), [value]);
  const wanted = view ?? kept;
  const chosen = wanted && shape.views.includes(wanted) ? wanted : (shape.views[0] ?? "text");
  const choose = onView ?? setKept;
  if (value === null || value === undefined) {
    return <Absent label={label} compact={compact} />;
  }
  if (compact) {
    return (
      <section className={styles.compact} aria-label={label}>
        <Body shape={shape} text={text} view={chosen} first={COMPACT_CHARS} />
      </section>
    );
  }
  return (
    <section className={styles.payload} aria-labelledby={id}>
      <div className={styles.head}>
        <h3 id={id}>{label}</h3>
        <span className="soft small grow">
          {bytes(utf8Bytes(text))}
          {shape.isParsed && ", JSON inside a text"}
        </span>
        {shape.views.length > 1 && (
          <fieldset className={styles.views}>
            <legend className="unseen">Show {label} as</legend>
            {shape.views.map((one) => (
              <button key={one} type="button" aria-pressed={one === chosen} onClick={() => choose(one)}>
                {NAMES[one]}
              </button>
            ))}
          </fieldset>
        )}
        <CopyButton label="Copy" text={text} />
      </div>
      <Body shape={shape} text={text} view={chosen} first={FIRST_CHARS} />
    </section>
  );
}

function Absent({ label, compact }: { label: string; compact: boolean }) {
  if (compact) return <span className="soft small">No {label.toLowerCase()}</span>;
  return (
    <section className={styles.payload}>
      <div className={styles.head}>
        <h3>{label}</h3>
        <span className="soft small">none</span>
      </div>
    </section>
  );
}

function Body({ shape, text, view, first }: { shape: Shape; text: string; view: View; first: number }) {
  const isCompact = first === COMPACT_CHARS;
  if (view === "chat" && shape.chat) {
    return (
      <Conversation
        chat={shape.chat}
        first={first}
        {...(isCompact ? { firstMessages: COMPACT_MESSAGES } : undefined)}
      />
    );
  }
  if (view === "json") return <JsonTree value={shape.value} {...(isCompact ? { lines: COMPACT_LINES } : undefined)} />;
  return <FoldedText text={text} first={first} />;
}
