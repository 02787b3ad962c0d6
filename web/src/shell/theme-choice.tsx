/** Chooses between light, dark and the system's. */

import { useState } from "react";
import { chooseTheme, storedTheme, type Theme } from "./theme";

/** The control. */
export function ThemeChoice() {
  const [theme, setTheme] = useState(storedTheme);
  return (
    <label>
      Theme
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
