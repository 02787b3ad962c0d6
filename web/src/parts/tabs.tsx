/** Tabs: one of several views of the same thing. Arrows go from tab to tab. */

import { type ReactNode, useId, useRef } from "react";
import styles from "./tabs.module.css";

type Props<Id extends string> = {
  /** What the tabs are of. */
  label: string;
  tabs: readonly { id: Id; label: string }[];
  chosen: Id;
  onChoose: (id: Id) => void;
  /** Stands beside the tabs. */
  beside?: ReactNode;
  /** Whether the panel takes the height that is left. */
  fills?: boolean;
  children: ReactNode;
};

/** The tabs and the panel of the chosen one. */
export function Tabs<Id extends string>({ label, tabs, chosen, onChoose, beside, fills, children }: Props<Id>) {
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const walk = (step: number) => {
    const at = tabs.findIndex((tab) => tab.id === chosen);
    const to = (at + step + tabs.length) % tabs.length;
    const tab = tabs[to];
    if (!tab) return;
    onChoose(tab.id);
    (list.current?.children[to] as HTMLElement | undefined)?.focus();
  };
  return (
    <div className={fills ? styles.fills : ""}>
      <div className={styles.head}>
        <div ref={list} role="tablist" aria-label={label} className={styles.list}>
          {tabs.map((tab) => (
            <button
              key={tab.id}
              type="button"
              role="tab"
              id={`${id}-${tab.id}`}
              aria-selected={tab.id === chosen}
              aria-controls={`${id}-panel`}
              tabIndex={tab.id === chosen ? 0 : -1}
              onClick={() => onChoose(tab.id)}
              onKeyDown={(event) => {
                if (event.key === "ArrowRight") walk(1);
                else if (event.key === "ArrowLeft") walk(-1);
                else return;
                event.preventDefault();
              }}
            >
              {tab.label}
            </button>
          ))}
        </div>
        {beside}
      </div>
      <div role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${chosen}`} className={styles.panel}>
        {children}
      </div>
    </div>
  );
}
