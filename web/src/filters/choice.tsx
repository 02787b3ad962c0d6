/** A field with values to choose from; others can be typed in. With several values, each choice adds or takes away. */

import { useId, useRef, useState } from "react";
import { compact } from "../format";
import styles from "./choice.module.css";
import type { FacetValue } from "./use-facets";

/** Characters of a value that are shown. */
const SHOWN = 120;
/** Values that are listed. */
const LISTED = 100;

type Props = {
  label: string;
  /** Values in force. */
  chosen: string[];
  several?: boolean;
  values: { value: string; count?: FacetValue["count"] }[];
  /** Said under the values, such as that they load. */
  note?: string | undefined;
  /** The user is about to choose. */
  onWanted: () => void;
  onChange: (chosen: string[]) => void;
};

/** The field and its list. */
export function Choice({ label, chosen, several = false, values, note, onWanted, onChange }: Props) {
  const id = useId();
  const [typed, setTyped] = useState<string>();
  const [isOpen, setOpen] = useState(false);
  const [active, setActive] = useState(-1);
  const list = useRef<HTMLDivElement>(null);

  const text = (typed ?? "").trim();
  const found = values.filter((one) => one.value.toLowerCase().includes(text.toLowerCase())).slice(0, LISTED);
  const isNew = text !== "" && !found.some((one) => one.value === text);
  const options = isNew ? [...found, { value: text }] : found;

  const close = () => {
    setOpen(false);
    setActive(-1);
    setTyped(undefined);
  };
  const pick = (value: string) => {
    if (!several) onChange([value]);
    else onChange(chosen.includes(value) ? chosen.filter((one) => one !== value) : [...chosen, value]);
    close();
  };
  /** Takes what was typed; an emptied field filters no more. */
  const take = () => {
    if (typed !== undefined) {
      if (text !== "") {
        if (!chosen.includes(text)) onChange(several ? [...chosen, text] : [text]);
      } else if (!several && chosen.length > 0) onChange([]);
    }
    close();
  };
  const walk = (step: number) => {
    setOpen(true);
    if (options.length === 0) return;
    const to = active < 0 && step < 0 ? options.length - 1 : (active + step + options.length) % options.length;
    setActive(to);
    list.current?.children[to]?.scrollIntoView({ block: "nearest" });
  };

  return (
    <div className={styles.choice}>
      <label htmlFor={id}>{label}</label>
      <input
        id={id}
        role="combobox"
        aria-expanded={isOpen}
        aria-controls={`${id}-list`}
        aria-autocomplete="list"
        aria-activedescendant={isOpen && active >= 0 ? `${id}-${active}` : undefined}
        autoComplete="off"
        spellCheck={false}
        dir="auto"
        data-filled={chosen.length > 0 || undefined}
        placeholder={several && chosen.length > 0 ? `${chosen.length} chosen` : "any"}
        value={typed ?? (several ? "" : (chosen[0] ?? "").slice(0, SHOWN))}
        onFocus={(event) => {
          onWanted();
          setOpen(true);
          event.target.select();
        }}
        onClick={() => setOpen(true)}
        onBlur={take}
        onChange={(event) => {
          setTyped(event.target.value);
          setOpen(true);
          setActive(-1);
        }}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown") walk(1);
          else if (event.key === "ArrowUp") walk(-1);
          else if (event.key === "Enter") {
            const option = isOpen ? options[active] : undefined;
            if (option) pick(option.value);
            else take();
          } else if (event.key === "Escape") close();
          else return;
          event.preventDefault();
        }}
      />
      <div className={styles.drop} hidden={!isOpen}>
        {/* The browser's own lists show no counts. The focus stays in the field, which says what is active. */}
        <div ref={list} id={`${id}-list`} role="listbox" aria-label={label} aria-multiselectable={several || undefined}>
          {options.map((option, index) => (
            // biome-ignore lint/a11y/useFocusableInteractive: the focus stays in the field
            // biome-ignore lint/a11y/useKeyWithClickEvents: the field handles the keys
            <div
              key={option.value}
              id={`${id}-${index}`}
              role="option"
              aria-selected={chosen.includes(option.value)}
              data-active={index === active || undefined}
              className={styles.option}
              onPointerDown={(event) => event.preventDefault()}
              onClick={() => pick(option.value)}
            >
              <bdi className="clip grow">{option.value.slice(0, SHOWN)}</bdi>
              {option.count !== undefined ? (
                <span className="soft number">{compact(option.count)}</span>
              ) : (
                isNew && option.value === text && <span className="soft">as typed</span>
              )}
            </div>
          ))}
        </div>
        {(note || options.length === 0) && <p className={styles.note}>{note ?? "No values: type one."}</p>}
      </div>
    </div>
  );
}
