/** A button with something below it that opens and closes: Esc, a click elsewhere, or leaving it with Tab close it. */

import { type ReactNode, useEffect, useId, useRef, useState } from "react";
import styles from "./popover.module.css";

type Props = {
  /** What stands on the button. */
  label: ReactNode;
  /** What the panel is called. */
  title: string;
  children: (close: () => void) => ReactNode;
};

/** The button and its panel. */
export function Popover({ label, title, children }: Props) {
  const [isOpen, setOpen] = useState(false);
  const frame = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const id = useId();
  useEffect(() => {
    if (!isOpen) return;
    const outside = (event: Event) => {
      if (!frame.current?.contains(event.target as Node)) setOpen(false);
    };
    const onKey = (event: KeyboardEvent) => {
      if (event.key !== "Escape") return;
      // Esc closes the nearest thing only.
      event.preventDefault();
      setOpen(false);
      button.current?.focus();
    };
    document.addEventListener("pointerdown", outside);
    document.addEventListener("focusin", outside);
    document.addEventListener("keydown", onKey);
    return () => {
      document.removeEventListener("pointerdown", outside);
      document.removeEventListener("focusin", outside);
      document.removeEventListener("keydown", onKey);
    };
  }, [isOpen]);
  return (
    <div className={styles.frame} ref={frame}>
      <button
        ref={button}
        type="button"
        aria-expanded={isOpen}
        aria-controls={isOpen ? id : undefined}
        onClick={() => setOpen(!isOpen)}
      >
        {label}
      </button>
      {isOpen && (
        <section id={id} className={styles.panel} aria-label={title}>
          {children(() => {
            setOpen(false);
            button.current?.focus();
          })}
        </section>
      )}
    </div>
  );
}
