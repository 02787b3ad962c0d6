/** Keys of a page, such as `j` and `/`. They are not taken from somebody who writes into a field. */

import { useEffect, useRef } from "react";

/** What each key does, by `KeyboardEvent.key`. */
export type Keys = Record<string, (event: KeyboardEvent) => void>;

function isWriting(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}

/** Whether a key belongs to the page rather than to a field, a dialog or the browser. */
export function isForPage(event: KeyboardEvent): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return false;
  // Enter on a link or a button with the focus means that.
  const pressed = event.target instanceof Element && event.target.closest("a, button, summary");
  if (event.key === "Enter" && pressed) return false;
  return !isWriting(event.target) && !document.querySelector("dialog[open]");
}

/** Listens while the component is there. */
export function useKeys(keys: Keys) {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      const act = latest.current[event.key];
      if (!act || !isForPage(event)) return;
      event.preventDefault();
      act(event);
    };
    window.addEventListener("keydown", listen);
    return () => window.removeEventListener("keydown", listen);
  }, []);
}
