/** Columns in an address: `columns=status,name`. Pure. */

/** The columns an address names, in their own order; the usual ones where it names none that there are. */
export function readColumns(named: string | null, all: readonly string[], usual: readonly string[]): string[] {
  const wanted = new Set(named?.split(",") ?? []);
  const found = all.filter((id) => wanted.has(id));
  return found.length > 0 ? found : [...usual];
}

/** What an address says for these columns; nothing for the usual ones. */
export function writeColumns(shown: readonly string[], usual: readonly string[]): string | undefined {
  const isUsual = shown.length === usual.length && usual.every((id) => shown.includes(id));
  return isUsual || shown.length === 0 ? undefined : shown.join(",");
}
