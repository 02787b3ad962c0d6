/** Saves the view one looks at under a name, and takes up saved ones. */

import { useState } from "react";
import { Popover } from "../parts/popover";
import { renamed, type SavedFilter, storedFilters, storeFilters, without, withSaved } from "./saved-filters";
import styles from "./saved-filters-menu.module.css";
import type { RunView } from "./use-filter";

/** The control. */
export function SavedFiltersMenu({ view }: { view: RunView }) {
  const [filters, setFilters] = useState(storedFilters);
  const [isStored, setStored] = useState(true);
  const [renaming, setRenaming] = useState<string>();
  const keep = (change: (now: SavedFilter[]) => SavedFilter[]) => {
    // Another tab may have saved one meanwhile.
    const next = change(isStored ? storedFilters() : filters);
    setFilters(next);
    setStored(storeFilters(next));
  };
  return (
    <Popover label="Saved filters" title="Saved filters">
      {(close) => (
        <div className="stack">
          {filters.length === 0 && <p className="soft">No saved filters yet. They are stored in this browser.</p>}
          {filters.length > 0 && (
            <ul className={styles.list}>
              {filters.map((filter) =>
                renaming === filter.name ? (
                  <li key={filter.name}>
                    <NameForm
                      label={`New name of ${filter.name}`}
                      button="Rename"
                      initial={filter.name}
                      onName={(name) => {
                        keep((now) => renamed(now, filter.name, name));
                        setRenaming(undefined);
                      }}
                    />
                  </li>
                ) : (
                  <li key={filter.name} className={styles.filter}>
                    <button
                      type="button"
                      className={`quiet ${styles.name}`}
                      onClick={() => {
                        view.setAddress(new URLSearchParams(filter.address));
                        close();
                      }}
                    >
                      <bdi className="clip">{filter.name}</bdi>
                    </button>
                    <button type="button" className="quiet" onClick={() => setRenaming(filter.name)}>
                      Rename<span className="unseen"> {filter.name}</span>
                    </button>
                    <button type="button" className="quiet" onClick={() => keep((now) => without(now, filter.name))}>
                      Delete<span className="unseen"> {filter.name}</span>
                    </button>
                  </li>
                ),
              )}
            </ul>
          )}
          <NameForm
            label="Name of this view"
            button="Save"
            initial=""
            onName={(name) => keep((now) => withSaved(now, { name, address: view.params.toString() }))}
          />
          {!isStored && (
            <p className="notice warn">
              The browser does not allow storage: saved filters last until you close this page.
            </p>
          )}
        </div>
      )}
    </Popover>
  );
}

type NameProps = { label: string; button: string; initial: string; onName: (name: string) => void };

function NameForm({ label, button, initial, onName }: NameProps) {
  const [name, setName] = useState(initial);
  return (
    <form
      className={styles.form}
      onSubmit={(event) => {
        event.preventDefault();
        onName(name);
        setName("");
      }}
    >
      <label className="grow">
        {label}
        <input value={name} maxLength={80} onChange={(event) => setName(event.target.value)} />
      </label>
      <button type="submit" disabled={!name.trim()}>
        {button}
      </button>
    </form>
  );
}
