/** The scroll position in a long table, so that going back in the history returns there. Lasts as long as the page. */

import { type RefObject, useEffect, useLayoutEffect, useRef } from "react";

/** Which table at which step of the history. */
export type TablePlace = {
  /** The step: `location.key`. */
  step: string;
  /** What the rows are of. Another list begins at its top. */
  list: string;
};

type Place = { top: number; cursor: string | undefined };
/** Steps that are remembered. */
const KEPT = 100;
const places = new Map<string, Place>();

function remember(step: string, place: Place) {
  places.delete(step);
  places.set(step, place);
  const oldest = places.keys().next().value;
  if (places.size > KEPT && oldest !== undefined) places.delete(oldest);
}

/** How far down the table was at this step. */
export function topOf(place: TablePlace | undefined): number {
  return (place && places.get(place.step)?.top) ?? 0;
}

/** Keeps the place of each step, and takes it up again when the step comes back. */
export function useTablePlace(
  place: TablePlace | undefined,
  scroller: RefObject<HTMLDivElement | null>,
  cursor: string | undefined,
  setCursor: (cursor: string | undefined) => void,
) {
  const now = useRef<Place>({ top: 0, cursor });
  now.current.cursor = cursor;
  const list = useRef(place?.list);

  useEffect(() => {
    const element = scroller.current;
    if (!element) return;
    const listen = () => {
      now.current.top = element.scrollTop;
    };
    element.addEventListener("scroll", listen, { passive: true });
    return () => element.removeEventListener("scroll", listen);
  }, [scroller]);

  const step = place?.step;
  const of = place?.list;
  useLayoutEffect(() => {
    if (step === undefined) return;
    const before = places.get(step);
    const isOther = list.current !== of;
    list.current = of;
    if (before) {
      scroller.current?.scrollTo({ top: before.top });
      setCursor(before.cursor);
      now.current = { ...before };
    } else if (isOther) {
      scroller.current?.scrollTo({ top: 0 });
      setCursor(undefined);
    }
    return () => remember(step, { ...now.current });
  }, [step, of, scroller, setCursor]);
}
