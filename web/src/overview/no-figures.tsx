/** There is nothing to draw: no run at all yet, or none in this time and filter. */

import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { api, ask } from "../api/client";
import { cleared } from "../filters/filter-bar";
import { isFiltered, writeFilter } from "../filters/run-filter";
import type { RunView } from "../filters/use-filter";
import { type CreatedKey, FirstEvent } from "../parts/first-event";
import { Empty, Loading } from "../parts/notice";

/** How often the first run is looked for. */
const AGAIN_MS = 3_000;

/** The notice. */
export function NoFigures({ view, created }: { view: RunView; created: CreatedKey }) {
  const { filter, params, setAddress, setRange } = view;
  const cache = useQueryClient();
  const project = filter.project_id ? { project_id: filter.project_id } : {};
  const any = useQuery({
    queryKey: ["any-run", project],
    queryFn: ({ signal }) => ask(api.GET("/api/run", { params: { query: { ...project, limit: 1 } }, signal })),
    refetchInterval: (asked) => (asked.state.data?.data.length ? false : AGAIN_MS),
  });
  const [isKnown, hasRuns] = [any.isSuccess, (any.data?.data.length ?? 0) > 0];
  // The first run is drawn as soon as it is there.
  useEffect(() => {
    if (hasRuns) void cache.invalidateQueries({ queryKey: ["usage"] });
  }, [hasRuns, cache]);
  if (any.isPending) return <Loading what="runs" />;
  if (isKnown && !hasRuns) return <FirstEvent created={created} />;
  return (
    <Empty title="No runs in this time range">
      <p className="soft">
        {isFiltered(filter) ? "No matching run started in it." : "No run started in it; other time ranges have runs."}
      </p>
      <div className="row">
        <button type="button" onClick={() => setRange("30d")}>
          Look at 30 days
        </button>
        {isFiltered(filter) && (
          <button type="button" onClick={() => setAddress(writeFilter(cleared(filter), params))}>
            Clear filters
          </button>
        )}
      </div>
    </Empty>
  );
}
