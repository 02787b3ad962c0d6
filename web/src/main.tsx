/** The entry: theme first, so that nothing is painted in the wrong colours, then the application. */

import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App, fetchPageOf, fetchPages } from "./app";
import { applyTheme, storedTheme } from "./shell/theme";
import "./style/tokens.css";
import "./style/base.css";

applyTheme(storedTheme());
fetchPageOf(window.location.pathname);

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>,
  );
}

// The visible content comes first; Safari has no idle callback.
const whenIdle = window.requestIdleCallback ?? ((act: () => void) => setTimeout(act, 2_000));
window.addEventListener("load", () => whenIdle(fetchPages), { once: true });
