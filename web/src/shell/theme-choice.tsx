/** Chooses between light, dark and the system's. */

import { useState } from "react";
import styles from "./shell.module.css";
import { chooseTheme, storedTheme, type Theme } from "./theme";

/** The control. */
export function ThemeChoice() {
  const [theme, setTheme] = useState(storedTheme);
  return (
    <label>
      <span className={styles.text}>Theme</span>
      <select
        value={theme}
        onChange={(event) => {
          const chosen = event.target.value as Theme;
          chooseTheme(chosen);
          setTheme(chosen);
        }}
      >
        <option value="system">System</option>
        <option value="light">Light</option>
        <option value="dark">Dark</option>
      </select>
    </label>
  );
}
