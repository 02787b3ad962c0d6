/** What is shown while there are no runs: how to send the first event, to this very address. */

import { useState } from "react";
import { Link } from "react-router";
import { useRole } from "../api/session";
import { CopyButton } from "./copy-button";
import styles from "./first-event.module.css";
import { snippets } from "./snippets";
import { Tabs } from "./tabs";

/** The guide. The page that shows it polls for the first run. */
export function FirstEvent() {
  const isAdmin = useRole("admin");
  const [chosen, setChosen] = useState("curl");
  const all = snippets(window.location.origin);
  const shown = all.find((snippet) => snippet.id === chosen) ?? all[0];
  return (
    <section className={`card stack ${styles.guide}`} aria-labelledby="first-event">
      <h2 id="first-event">No runs yet: send the first event</h2>
      <ol className={styles.steps}>
        <li>
          {isAdmin ? (
            <>
              Create an API key with the scope <code>report</code> under{" "}
              <Link to="/operations/keys">Operations, Keys</Link>, or with <code>spindle key create</code>.
            </>
          ) : (
            <>
              Ask an administrator for an API key with the scope <code>report</code>, created with{" "}
              <code>spindle key create</code>.
            </>
          )}
        </li>
        <li>
          Set it for your program: <code>export SPINDLE_API_KEY=…</code>
        </li>
        <li>Report what your agent does:</li>
      </ol>
      <Tabs label="Languages" tabs={all} chosen={shown?.id ?? ""} onChoose={setChosen}>
        <div className={styles.code}>
          <div className={styles.copy}>
            <CopyButton label="Copy" text={shown?.text ?? ""} />
          </div>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, so the keyboard must reach it */}
          <pre tabIndex={0}>{shown?.text}</pre>
        </div>
      </Tabs>
      <p className="soft pulse" role="status">
        Waiting for the first run. It appears here automatically.
      </p>
    </section>
  );
}
