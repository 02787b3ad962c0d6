/** Keys of a page, such as `j` and `/`. They are ignored while the user types into a field. */

import { type RefObject, useEffect, useRef } from "react";

/** What each key does, by `KeyboardEvent.key`. */
export type Keys = Record<string, (event: KeyboardEvent) => void>;

/** Fields that take no text. */
const NO_TEXT = ["button", "checkbox", "color", "file", "image", "radio", "range", "reset", "submit"];
/** The elements in which movement keys have a meaning. */
const MOVED = ["color", "radio", "range"];
const MOVING = /^(Arrow|Home$|End$|Page)/;

/** Whether a key pressed on an element means something there: writing, choosing, moving. Pure. */
export function isTakenBy(element: { tagName: string; type?: string; isContentEditable?: boolean }, key: string) {
  if (element.isContentEditable || /^(TEXTAREA|SELECT)$/.test(element.tagName)) return true;
  if (element.tagName !== "INPUT") return false;
  const type = element.type ?? "text";
  return NO_TEXT.includes(type) ? MOVED.includes(type) && MOVING.test(key) : true;
}

/** Whether a key belongs to the page rather than to a field, a dialog or the browser. */
export function isForPage(event: KeyboardEvent): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return false;
  // Enter on a link or a button with the focus means that.
  const pressed = event.target instanceof Element && event.target.closest("a, button, summary");
  if (event.key === "Enter" && pressed) return false;
  if (event.target instanceof HTMLElement && isTakenBy(event.target, event.key)) return false;
  return !document.querySelector("dialog[open]");
}

/** Whether a key would scroll what has the focus, or move in it, and that is something else than this list. */
function isElsewhere(event: KeyboardEvent, list: HTMLElement | null): boolean {
  if (!MOVING.test(event.key) || event.target === document.body) return false;
  return !(event.target instanceof Node && list?.contains(event.target));
}

/** Listens while the component is there. Arrows, Home and End count in the `list` and where nothing has the focus. */
export function useKeys(keys: Keys, list?: RefObject<HTMLElement | null>) {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      const act = latest.current[event.key];
      if (!act || !isForPage(event)) return;
      if (list && isElsewhere(event, list.current)) return;
      event.preventDefault();
      act(event);
    };
    window.addEventListener("keydown", listen);
    return () => window.removeEventListener("keydown", listen);
  }, [list]);
}
