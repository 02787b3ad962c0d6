/** Light, dark, or as the system says. Kept in the browser: it is no secret. */

/** A choice. */
export type Theme = "system" | "light" | "dark";
const KEY = "spindle.theme";

/** What was chosen last. */
export function storedTheme(): Theme {
  try {
    const stored = localStorage.getItem(KEY);
    return stored === "light" || stored === "dark" ? stored : "system";
  } catch {
    // Storage may be forbidden.
    return "system";
  }
}

/** Paints in this theme. */
export function applyTheme(theme: Theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

/** Paints in this theme and remembers it. */
export function chooseTheme(theme: Theme) {
  applyTheme(theme);
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // It then lasts as long as the page.
  }
  window.dispatchEvent(new Event("themechange"));
}
