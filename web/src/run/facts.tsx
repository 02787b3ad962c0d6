/** Short facts beside each other, each under its name. */

import type { ReactNode } from "react";
import { Link } from "react-router";
import { CopyButton } from "../parts/copy-button";
import styles from "./run.module.css";

/** A name and what it is; facts that are nothing are left out. */
export type Fact = [name: string, value: ReactNode];

/** The list. */
export function Facts({ facts, isNarrow = false }: { facts: Fact[]; isNarrow?: boolean }) {
  return (
    <dl className={isNarrow ? styles.factsNarrow : styles.facts}>
      {facts.filter(isGiven).map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** A few facts in one line; the name of each is its tooltip, and read out. */
export function FactLine({ facts }: { facts: Fact[] }) {
  return (
    <ul className={styles.factLine}>
      {facts.filter(isGiven).map(([name, value]) => (
        <li key={name} title={name}>
          <span className="unseen">{name}: </span>
          {value}
        </li>
      ))}
    </ul>
  );
}

function isGiven([, value]: Fact): boolean {
  return value !== null && value !== undefined && value !== "" && value !== false;
}

/** Reported text, truncated and with its own direction. */
export function Said({ text, most = 200 }: { text: string; most?: number }) {
  return (
    <bdi className={styles.said} title={text.slice(0, 1_000)}>
      {text.length > most ? `${text.slice(0, most)}…` : text}
    </bdi>
  );
}

/** An id with a button that copies it, and a link where it leads somewhere. */
export function Id({ id, to, most = 300 }: { id: string; to?: string; most?: number }) {
  const said = <Said text={id} most={most} />;
  return (
    <span className={styles.id}>
      {to ? <Link to={to}>{said}</Link> : said}
      <CopyButton label="Copy" text={id} />
    </span>
  );
}
