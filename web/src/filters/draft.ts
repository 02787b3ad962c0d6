/** What is being typed into a field before it is part of the filter. */

import { useEffect, useRef, useState } from "react";

type Draft = {
  /** What the field shows. */
  text: string;
  change: (text: string) => void;
  /** Takes over what was typed, at once. */
  commit: () => void;
  /** Forgets what was typed. */
  forget: () => void;
};

/**
 * The text of a field whose value lives in the address. What is typed is taken over with `commit`, or `delayMs` after
 * the last key. A value that changes from elsewhere replaces what was typed.
 */
export function useDraft(value: string, onCommit: (text: string) => void, delayMs?: number): Draft {
  const [typed, setTyped] = useState<string>();
  const committed = useRef(value);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const latest = useRef({ typed, value, onCommit });
  latest.current = { typed, value, onCommit };

  useEffect(() => {
    setTyped((now) => (now === value || value !== committed.current ? undefined : now));
    if (value !== committed.current) clearTimeout(timer.current);
    committed.current = value;
  }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);

  const commit = () => {
    clearTimeout(timer.current);
    const { typed: text, value: now, onCommit: take } = latest.current;
    if (text === undefined) return;
    const wanted = text.trim();
    if (wanted === now) return;
    committed.current = wanted;
    take(wanted);
  };
  return {
    text: typed ?? value,
    change: (text) => {
      setTyped(text);
      latest.current = { ...latest.current, typed: text };
      clearTimeout(timer.current);
      if (delayMs !== undefined) timer.current = setTimeout(commit, delayMs);
    },
    commit,
    forget: () => {
      clearTimeout(timer.current);
      setTyped(undefined);
    },
  };
}
