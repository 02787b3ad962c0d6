/** Adds a condition on a key of the metadata. */

import { useState } from "react";
import styles from "./filter-bar.module.css";
import type { RunView } from "./use-filter";

/** Two fields and a button. */
export function MetadataField({ view }: { view: RunView }) {
  const [key, setKey] = useState("");
  const [value, setValue] = useState("");
  const add = () => {
    const name = key.trim();
    if (!name || !value.trim()) return;
    view.setFilter((filter) => ({ ...filter, metadata: { ...filter.metadata, [name]: value.trim() } }));
    setKey("");
    setValue("");
  };
  return (
    <form
      className={styles.pair}
      onSubmit={(event) => {
        event.preventDefault();
        add();
      }}
    >
      <label>
        Metadata key
        <input value={key} placeholder="env" spellCheck={false} onChange={(event) => setKey(event.target.value)} />
      </label>
      <label>
        Metadata value
        <input value={value} placeholder="prod" spellCheck={false} onChange={(event) => setValue(event.target.value)} />
      </label>
      <button type="submit" disabled={!key.trim() || !value.trim()}>
        Add
      </button>
    </form>
  );
}
