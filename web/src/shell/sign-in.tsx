/** Signing in with a token. It is sent once and kept nowhere in the browser: the session is a cookie scripts cannot read. */

import { useRef } from "react";
import { useSignIn } from "../api/session";
import { Failure } from "../parts/notice";
import styles from "./sign-in.module.css";

/** The page; the address stays, so that after signing in one is where one wanted to be. */
export function SignIn() {
  const signIn = useSignIn();
  const field = useRef<HTMLInputElement>(null);
  return (
    <main className={styles.page}>
      <form
        className={`card stack ${styles.form}`}
        onSubmit={(event) => {
          event.preventDefault();
          const input = field.current;
          const token = input?.value.trim();
          if (!input || !token) return;
          signIn.mutate(token, { onError: () => input.select() });
        }}
      >
        <h1 className="row">
          <img src="/favicon.svg" alt="" width="28" height="28" /> Sign in to Spindle
        </h1>
        <label>
          Token
          <input ref={field} type="password" name="token" autoComplete="off" required spellCheck={false} />
        </label>
        {signIn.isError && <Failure error={signIn.error} />}
        <button type="submit" className="primary" disabled={signIn.isPending}>
          {signIn.isPending ? "Signing in…" : "Sign in"}
        </button>
        <p className="soft small">
          The first start of <code>spindle serve</code> prints an admin token and stores it in <code>credentials</code>{" "}
          in its data folder. Create more with <code>spindle token create</code>. API keys are for programs and cannot
          sign in.
        </p>
      </form>
    </main>
  );
}
