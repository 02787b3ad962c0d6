/** A field for JSON that says where something is wrong. */

import { useId, useRef } from "react";
import { JsonFault, lineOf, readJson } from "./json-text";
import styles from "./operations.module.css";

/** Something that is wrong, and the character where it is; nowhere in particular without one. */
export type TextFault = { message: string; at: number | undefined };

/** What is wrong with a text as JSON. */
export function syntaxFault(text: string): TextFault | undefined {
  try {
    readJson(text);
    return undefined;
  } catch (error) {
    return error instanceof JsonFault
      ? { message: `${error.message}.`, at: error.at }
      : { message: String(error), at: 0 };
  }
}

type Props = { label: string; text: string; faults: TextFault[]; onChange: (text: string) => void };

/** The field, and what is wrong below it; pressing a line selects the place. */
export function JsonEditor({ label, text, faults, onChange }: Props) {
  const field = useRef<HTMLTextAreaElement>(null);
  const id = useId();
  const select = (at: number) => {
    field.current?.focus();
    field.current?.setSelectionRange(at, Math.min(text.length, at + 1));
    // Fields do not scroll to what is selected by a script: their lines are all of one height.
    const height = field.current ? field.current.scrollHeight / text.split("\n").length : 0;
    field.current?.scrollTo({ top: Math.max(0, (lineOf(text, at).line - 3) * height) });
  };
  return (
    <div className="stack">
      <label>
        {label}
        <textarea
          ref={field}
          className={styles.editor}
          value={text}
          spellCheck={false}
          autoComplete="off"
          aria-invalid={faults.length > 0}
          aria-describedby={faults.length > 0 ? id : undefined}
          onChange={(event) => onChange(event.target.value)}
        />
      </label>
      <ul id={id} className={styles.faults} aria-live="polite">
        {faults.map(({ message, at }) => (
          <li key={`${at} ${message}`}>
            {at !== undefined && (
              <button type="button" className="quiet" onClick={() => select(at)}>
                Line {lineOf(text, at).line}
              </button>
            )}
            <span className={styles.error} dir="auto">
              {message}
            </span>
          </li>
        ))}
      </ul>
    </div>
  );
}
