/** Chooses the columns of a table of runs. */

import { Popover } from "../parts/popover";
import styles from "./column-choice.module.css";
import { writeColumns } from "./column-names";
import { RUN_COLUMNS, USUAL_COLUMNS } from "./run-columns";

type Props = { shown: string[]; onChange: (columns: string | undefined) => void };

/** The control. */
export function ColumnChoice({ shown, onChange }: Props) {
  return (
    <Popover label="Columns" title="Columns">
      {() => (
        <div className="stack">
          <div className={styles.list}>
            {RUN_COLUMNS.map((column) => {
              const isShown = shown.includes(column.id);
              return (
                <label key={column.id} className="line">
                  <input
                    type="checkbox"
                    checked={isShown}
                    disabled={isShown && shown.length === 1}
                    onChange={() => {
                      const next = RUN_COLUMNS.map((one) => one.id).filter(
                        (id) => shown.includes(id) !== (id === column.id),
                      );
                      onChange(writeColumns(next, USUAL_COLUMNS));
                    }}
                  />
                  {column.title}
                </label>
              );
            })}
          </div>
          <button type="button" onClick={() => onChange(undefined)}>
            Usual columns
          </button>
        </div>
      )}
    </Popover>
  );
}
