/** The search for text. `/` goes there, Esc leaves it. */

import { useRef } from "react";
import { useKeys } from "../parts/keys";
import { useDraft } from "./draft";
import styles from "./filter-bar.module.css";
import type { RunView } from "./use-filter";

/** What is searched; the characters are `PREVIEW_CHARS` of the server. */
export const SEARCHED = "names, errors and the first 160 characters of input and output";
/** Milliseconds after the last key until the search begins. */
const PAUSE_MS = 300;

/** The field. */
export function Search({ view }: { view: RunView }) {
  const field = useRef<HTMLInputElement>(null);
  // One search is one step in the history, however many letters it took.
  const isSameStep = useRef(false);
  const draft = useDraft(
    view.filter.q ?? "",
    (text) => {
      view.setFilter(({ q: _, ...rest }) => (text ? { ...rest, q: text } : rest), { replace: isSameStep.current });
      isSameStep.current = true;
    },
    PAUSE_MS,
  );
  useKeys({ "/": () => field.current?.select() });
  return (
    <label className={styles.search}>
      Search
      <input
        ref={field}
        type="search"
        dir="auto"
        placeholder="Name, error, start of texts"
        title={`Search covers ${SEARCHED}`}
        autoComplete="off"
        spellCheck={false}
        value={draft.text}
        data-filled={view.filter.q !== undefined || undefined}
        onChange={(event) => draft.change(event.target.value)}
        onFocus={() => {
          isSameStep.current = false;
        }}
        onBlur={draft.commit}
        onKeyDown={(event) => {
          if (event.key === "Enter") draft.commit();
          if (event.key !== "Escape") return;
          // Esc would empty the field; here it leaves it.
          event.preventDefault();
          event.currentTarget.blur();
        }}
      />
    </label>
  );
}
