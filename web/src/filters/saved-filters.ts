/** Named filters, kept in this browser. They hold no secret: they are addresses of views. */

/** A view with a name. */
export type SavedFilter = {
  name: string;
  /** What stands behind the `?` of its address. */
  address: string;
};

const KEY = "spindle.filters";
/** Filters that are kept, and the letters of a name. */
const MOST = 100;
const LONGEST_NAME = 80;

/** What was stored as text; nothing where it is not what this program wrote. Pure. */
export function readSaved(text: string | null): SavedFilter[] {
  try {
    const stored: unknown = JSON.parse(text ?? "[]");
    if (!Array.isArray(stored)) return [];
    return stored
      .filter((one) => typeof one?.name === "string" && typeof one?.address === "string")
      .map(({ name, address }) => ({ name, address }));
  } catch {
    return [];
  }
}

/** With this one, which takes the place of one of the same name. Pure. */
export function withSaved(filters: readonly SavedFilter[], { name, address }: SavedFilter): SavedFilter[] {
  const called = name.trim().slice(0, LONGEST_NAME);
  if (!called) return [...filters];
  const rest = filters.filter((one) => one.name !== called);
  return [...rest, { name: called, address }].sort((a, b) => a.name.localeCompare(b.name)).slice(0, MOST);
}

/** With another name for one of them. Pure. */
export function renamed(filters: readonly SavedFilter[], name: string, to: string): SavedFilter[] {
  const one = filters.find((filter) => filter.name === name);
  if (!one || !to.trim()) return [...filters];
  return withSaved(
    filters.filter((filter) => filter.name !== name),
    { ...one, name: to },
  );
}

/** Without one of them. Pure. */
export function without(filters: readonly SavedFilter[], name: string): SavedFilter[] {
  return filters.filter((one) => one.name !== name);
}

/** Saved filters of this browser. */
export function storedFilters(): SavedFilter[] {
  try {
    return readSaved(localStorage.getItem(KEY));
  } catch {
    // Storage may be forbidden.
    return [];
  }
}

/** Keeps them. Says whether the browser let it. */
export function storeFilters(filters: readonly SavedFilter[]): boolean {
  try {
    localStorage.setItem(KEY, JSON.stringify(filters));
    return true;
  } catch {
    return false;
  }
}
