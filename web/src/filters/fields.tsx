/** Fields of the filter: text and figures that are taken over when they are done, and choices of few words. */

import { useDraft } from "./draft";

type TextProps = {
  label: string;
  value: string;
  onChange: (value: string) => void;
  /** Whether it is for a figure: anything can be typed, and the server says what is wrong with it. */
  isFigure?: boolean;
  placeholder?: string;
};

/** A text, taken over with Enter or on leaving the field. */
export function TextField({ label, value, onChange, isFigure = false, placeholder }: TextProps) {
  const draft = useDraft(value, onChange);
  return (
    <label>
      {label}
      <input
        value={draft.text}
        inputMode={isFigure ? "decimal" : "text"}
        placeholder={placeholder}
        dir={isFigure ? "ltr" : "auto"}
        autoComplete="off"
        spellCheck={false}
        data-filled={value !== "" || undefined}
        onChange={(event) => draft.change(event.target.value)}
        onBlur={draft.commit}
        onKeyDown={(event) => {
          if (event.key === "Enter") draft.commit();
          if (event.key === "Escape") draft.forget();
        }}
      />
    </label>
  );
}

type PickProps = {
  label: string;
  value: string;
  /** Values and what they are called; the empty value means that nothing is filtered. */
  choices: readonly (readonly [value: string, label: string])[];
  onChange: (value: string) => void;
};

/** One of a few words. A value that is none of them, from an address, is shown as it is. */
export function Pick({ label, value, choices, onChange }: PickProps) {
  const isKnown = choices.some(([one]) => one === value);
  return (
    <label>
      {label}
      <select value={value} data-filled={value !== "" || undefined} onChange={(event) => onChange(event.target.value)}>
        {!isKnown && <option value={value}>{value.slice(0, 60)}</option>}
        {choices.map(([one, text]) => (
          <option key={one} value={one}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}
