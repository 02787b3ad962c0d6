/** The entry: theme first, so that nothing is painted in the wrong colours, then the application. */

import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app";
import { applyTheme, storedTheme } from "./shell/theme";
import "./style/tokens.css";
import "./style/base.css";

applyTheme(storedTheme());

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <App />
    </StrictMode>,
  );
}
