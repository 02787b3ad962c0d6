/** What is otherwise in one scan of the platform than in another. Pure. */

/** One thing that differs; what is not there is undefined. */
export type Difference = { where: string; before: string | undefined; after: string | undefined };

// These differ from scan to scan and say nothing about the platform.
const PASSING = new Set(["scanTimestamp", "lastHealthCheck", "scanDuration", "summary", "connections", "memory"]);

/** Every leaf of a value by where it is, such as `services · svcCms · status`. */
export function leaves(value: unknown, where: string[] = [], into = new Map<string, string>()): Map<string, string> {
  const isList = Array.isArray(value) && value.every((one) => typeof one !== "object" || one === null);
  if (typeof value === "object" && value !== null && !isList) {
    for (const [key, inner] of Object.entries(value)) {
      if (!PASSING.has(key) || where.at(-1) === "services") leaves(inner, [...where, key], into);
    }
  } else if (value !== undefined) {
    into.set(where.join(" · "), isList ? value.map(String).join(", ") : String(value));
  }
  return into;
}

/** What differs from `before` to `after`, in the order in which it is found there. */
export function differences(before: unknown, after: unknown): Difference[] {
  const [old, now] = [leaves(before), leaves(after)];
  const places = new Set([...now.keys(), ...old.keys()]);
  return [...places]
    .map((where) => ({ where, before: old.get(where), after: now.get(where) }))
    .filter((one) => one.before !== one.after);
}
