/** Two texts side by side, with the lines that differ marked by a sign and a colour. */

import { useMemo, useState } from "react";
import { count } from "../format";
import { Wide } from "../parts/wide";
import { textOf } from "../payload/fold";
import { Payload } from "../payload/payload";
import styles from "./compare.module.css";
import { diffLines, type Row, sideBySide } from "./line-diff";

/** Rows shown at first, and with each "show more". */
const STEP_ROWS = 200;
/** Characters of a line that are shown. */
const LINE_CHARS = 2_000;

type Props = { label: string; a: unknown; b: unknown; isEqual: boolean };

/** The difference; where the two are equal or too large, what they are. */
export function TextDiff({ label, a, b, isEqual }: Props) {
  const rows = useMemo(() => {
    if (isEqual) return undefined;
    const lines = diffLines(textOf(a ?? null), textOf(b ?? null));
    return lines && sideBySide(lines);
  }, [a, b, isEqual]);
  if (isEqual) {
    return (
      <section className="card stack">
        <p className="soft" style={{ margin: 0 }}>
          {a == null ? `Neither run has an ${label.toLowerCase()}.` : `The ${label.toLowerCase()}s are the same.`}
        </p>
        {a != null && <Payload value={a} label={label} />}
      </section>
    );
  }
  if (!rows) {
    return (
      <section className="card stack">
        <p className="notice" style={{ margin: 0 }}>
          The {label.toLowerCase()}s differ and are too large to compare line by line.
        </p>
        <div className={styles.sides}>
          <Payload value={a} label={`${label} of A`} />
          <Payload value={b} label={`${label} of B`} />
        </div>
      </section>
    );
  }
  return <Rows label={label} rows={rows} />;
}

function Rows({ label, rows }: { label: string; rows: Row[] }) {
  const [shown, setShown] = useState(STEP_ROWS);
  return (
    <section className="card stack" aria-label={label}>
      <h2>{label}</h2>
      <Wide label={`${label}, line by line`}>
        <table className={styles.diff}>
          <thead>
            <tr>
              <th>A</th>
              <th>B</th>
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, shown).map((row, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: a line is known by its place alone
              <tr key={index}>
                {"skipped" in row ? (
                  <td colSpan={2} className={styles.skipped}>
                    {count(row.skipped)} equal lines
                  </td>
                ) : (
                  <>
                    <Cell text={row.a} mark={row.isEqual ? undefined : "−"} />
                    <Cell text={row.b} mark={row.isEqual ? undefined : "+"} />
                  </>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
      {shown < rows.length && (
        <div className="row">
          <button type="button" onClick={() => setShown(shown + STEP_ROWS)}>
            Show {count(Math.min(STEP_ROWS, rows.length - shown))} more
          </button>
          <span className="soft small">
            {count(shown)} of {count(rows.length)} rows
          </span>
        </div>
      )}
    </section>
  );
}

function Cell({ text, mark }: { text: string | undefined; mark: "−" | "+" | undefined }) {
  if (text === undefined) return <td className={styles.nothing} />;
  return (
    <td data-mark={mark}>
      {mark && (
        <span className={styles.sign}>
          <span aria-hidden="true">{mark}</span>
          <span className="unseen">{mark === "−" ? "only in A: " : "only in B: "}</span>
        </span>
      )}
      <span dir="auto" className={styles.lineText}>
        {text.slice(0, LINE_CHARS)}
      </span>
      {text.length > LINE_CHARS && (
        <span className="soft small"> … {count(text.length - LINE_CHARS)} more characters</span>
      )}
    </td>
  );
}
