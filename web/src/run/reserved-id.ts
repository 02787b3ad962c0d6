/** Ids of runs that cannot stand in an address of the API, because it means something else there. Pure. */

/** Paths beside the paths of runs. */
const PATHS = ["export", "live", "facets", "compare"];

/** Why nothing can be asked of a run of this id; `isBelow` where more of the address follows it. */
export function reserved(runId: string, isBelow = false): string | undefined {
  // These two lead up the path, whatever follows.
  const isReserved = runId === "." || runId === ".." || (PATHS.includes(runId) && !isBelow);
  return isReserved
    ? `A run with the id “${runId}” cannot be shown: the API uses this address for something else.`
    : undefined;
}
