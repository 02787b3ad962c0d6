/** The figures of the whole span, each with its change against the equally long time before. */

import { compact, count, dollars, duration, percent, time } from "../format";
import { changeOf } from "./change";
import styles from "./overview.module.css";
import type { Figures } from "./series";
import { lengthText, type Span } from "./span";

type Props = {
  /** Absent until the figures are known. */
  now: Figures | undefined;
  /** The time before; absent while it is not known. */
  earlier: Figures | undefined;
  before: Span;
};

/** The tiles. */
export function Tiles({ now, earlier, before }: Props) {
  const iso = (ms: number) => time(new Date(ms).toISOString());
  const when = `${iso(before.from)} to ${iso(before.to)}`;
  const tiles = now
    ? tilesOf(now, earlier)
    : TITLES.map((title) => ({ title, value: "…", full: "", change: undefined }));
  return (
    <section className="stack" aria-label="Totals of all runs" aria-busy={!now}>
      <dl className={styles.tiles}>
        {tiles.map(({ title, value, full, change }) => (
          <div key={title} className={`card ${styles.tile}`} title={full}>
            <dt className="soft small">{title}</dt>
            <dd className={styles.value}>{value}</dd>
            <dd className="small">
              {change ? (
                <span className={change.kind === "" ? "soft" : styles[change.kind]}>{change.text}</span>
              ) : (
                <span className="soft">{earlier ? "nothing to compare" : "…"}</span>
              )}
            </dd>
          </div>
        ))}
      </dl>
      <p className="soft small">
        All runs that match the filter, compared with the {lengthText(before)} before, {when}. Own cost and own tokens
        leave children out, which count as runs of their own; total cost and total tokens, in the list of runs, include
        them.
      </p>
    </section>
  );
}

/** The titles, in the order of the tiles. */
const TITLES = ["Runs", "Model calls", "Own cost", "Own tokens", "Error rate", "Latency p95"] as const;

function tilesOf(now: Figures, earlier: Figures | undefined) {
  const hasEarlier = earlier && earlier.runs > 0;
  const shares = { isShare: true, more: "worse" } as const;
  const tiles: Record<(typeof TITLES)[number], Omit<Tile, "title">> = {
    Runs: { value: compact(now.runs), full: count(now.runs), change: changeOf(now.runs, earlier?.runs) },
    "Model calls": { value: compact(now.calls), full: count(now.calls), change: changeOf(now.calls, earlier?.calls) },
    "Own cost": { value: dollars(now.cost), full: `$${now.cost}`, change: changeOf(now.cost, earlier?.cost) },
    "Own tokens": {
      value: compact(now.total_tokens),
      full: `${count(now.prompt_tokens)} of prompts, ${count(now.completion_tokens)} of answers`,
      change: changeOf(now.total_tokens, earlier?.total_tokens),
    },
    "Error rate": {
      value: now.runs > 0 ? percent(now.error_rate) : "–",
      full: `${count(now.errors)} of ${count(now.runs)} runs`,
      change: now.runs > 0 && hasEarlier ? changeOf(now.error_rate, earlier.error_rate, shares) : undefined,
    },
    "Latency p95": {
      value: duration(now.latency_p95_s),
      full: `95 of 100 runs took no longer; the median is ${duration(now.latency_p50_s)}`,
      change: changeOf(now.latency_p95_s, earlier?.latency_p95_s, { more: "worse" }),
    },
  };
  return TITLES.map((title): Tile => ({ title, ...tiles[title] }));
}

type Tile = { title: string; value: string; full: string; change: ReturnType<typeof changeOf> };
