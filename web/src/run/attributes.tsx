/** The attributes of a span: its metadata, and the fields of its events that have no other meaning. Searched by text. */

import { useDeferredValue, useMemo, useState } from "react";
import { Link } from "react-router";
import { count } from "../format";
import { textOf } from "../payload/fold";
import { FoldedText } from "../payload/folded-text";
import { type Attribute, filterByAttribute, matching } from "./attribute-list";
import { Said } from "./facts";
import styles from "./run.module.css";

/** Rows shown at first, and with each "show more". */
const STEP = 100;
/** From this many on there is a search. */
const SEARCHED_FROM = 8;

/** The table. A value that can be filtered by is a link to the runs that have it. */
export function Attributes({ all, projectId }: { all: Attribute[]; projectId: string | undefined }) {
  const [text, setText] = useState("");
  const [shown, setShown] = useState(STEP);
  const looked = useDeferredValue(text);
  const found = useMemo(() => matching(all, looked), [all, looked]);
  if (all.length === 0) return <p className="soft">No attributes.</p>;
  return (
    <div className="stack">
      {all.length >= SEARCHED_FROM && (
        <div className="row">
          <input
            type="search"
            aria-label="Find attributes"
            placeholder="Find attributes"
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
          <span className="soft small" role="status">
            {looked.trim() ? `${count(found.length)} of ${count(all.length)}` : count(all.length)}
          </span>
        </div>
      )}
      <table className={styles.attributes}>
        <thead className="unseen">
          <tr>
            <th scope="col">Name</th>
            <th scope="col">Value</th>
          </tr>
        </thead>
        <tbody>
          {found.slice(0, shown).map(({ name, value, isMetadata, canFilter }) => {
            const filter = canFilter ? filterByAttribute(name, value, projectId) : undefined;
            return (
              <tr key={`${isMetadata} ${name}`}>
                <th scope="row">
                  <Said text={name} />
                </th>
                <td>
                  {filter ? (
                    <Link to={filter} title="Runs with this value">
                      <Said text={textOf(value)} />
                    </Link>
                  ) : (
                    <FoldedText text={textOf(value)} first={300} />
                  )}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {shown < found.length && (
        <button type="button" onClick={() => setShown(shown + STEP)}>
          Show {count(Math.min(STEP, found.length - shown))} more
        </button>
      )}
    </div>
  );
}
