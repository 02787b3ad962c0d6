/** A conversation: who said what, which tools were called and what they answered. Everything is text. */

import { useState } from "react";
import { count } from "../format";
import { entryCount, FIRST_CHARS } from "./fold";
import { FoldedText } from "./folded-text";
import { JsonTree } from "./json-tree";
import styles from "./payload.module.css";
import type { Chat, Message, Part } from "./shape";

/** Messages shown at first, and with each "show more". */
const FIRST_MESSAGES = 20;
const STEP_MESSAGES = 50;

type Props = {
  chat: Chat;
  /** Characters of each text shown at first. */
  first?: number;
  /** Messages shown at first. */
  firstMessages?: number;
};

/** The messages, and what was reported beside them. */
export function Conversation({ chat, first = FIRST_CHARS, firstMessages = FIRST_MESSAGES }: Props) {
  const [shown, setShown] = useState(firstMessages);
  const { messages, rest } = chat;
  const fields = Object.keys(rest).length;
  return (
    <div className={styles.chat}>
      {messages.slice(0, shown).map((message, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a message is known by its place alone
        <Said key={index} message={message} first={first} />
      ))}
      {shown < messages.length && (
        <div className={styles.more}>
          <button type="button" onClick={() => setShown(shown + STEP_MESSAGES)}>
            Show {count(Math.min(STEP_MESSAGES, messages.length - shown))} more
          </button>
          <span className="soft small">
            {count(shown)} of {count(messages.length)} messages
          </span>
        </div>
      )}
      {fields > 0 && (
        <details>
          <summary className="soft small">
            {fields === 1 ? "1 other field" : `${count(fields)} other fields`} beside the messages
          </summary>
          <JsonTree value={rest} />
        </details>
      )}
    </div>
  );
}

function Said({ message, first }: { message: Message; first: number }) {
  const { role, name, parts } = message;
  const known = ["user", "assistant", "system", "tool"].includes(role) ? role : "other";
  return (
    <div className={styles.message} data-role={known}>
      <div className={styles.role}>
        <bdi>{role.slice(0, 60)}</bdi>
        {name && (
          <span className="soft">
            {" "}
            <bdi>{name.slice(0, 120)}</bdi>
          </span>
        )}
      </div>
      {parts.length === 0 && <span className="soft small">No content</span>}
      {parts.map((part, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a part is known by its place alone
        <Piece key={index} part={part} first={first} />
      ))}
    </div>
  );
}

function Piece({ part, first }: { part: Part; first: number }) {
  if (part.kind === "text") return <FoldedText text={part.text} first={first} />;
  if (part.kind === "media") {
    return (
      <span className={styles.media}>
        <bdi>{part.description}</bdi>
      </span>
    );
  }
  if (part.kind === "reasoning") {
    return (
      <details>
        <summary className="soft small">Reasoning, {count(part.text.length)} characters</summary>
        <FoldedText text={part.text} first={first} />
      </details>
    );
  }
  if (part.kind === "other") return <JsonTree value={part.value} />;
  return (
    <div className={styles.tool}>
      <div className="small">
        {part.kind === "call" ? (
          <>
            Calls <b className="mono">{<bdi>{part.name.slice(0, 120)}</bdi>}</b>
          </>
        ) : (
          <span className={part.isError ? styles.failed : ""}>{part.isError ? "Failed result" : "Result"}</span>
        )}
        {part.id && (
          <span className="soft">
            {" "}
            <bdi>{part.id.slice(0, 120)}</bdi>
          </span>
        )}
      </div>
      <Value value={part.kind === "call" ? part.input : part.output} first={first} />
    </div>
  );
}

function Value({ value, first }: { value: unknown; first: number }) {
  if (value === null || value === undefined || value === "") return null;
  if (entryCount(value) !== undefined) return <JsonTree value={value} />;
  return <FoldedText text={String(value)} first={first} />;
}
