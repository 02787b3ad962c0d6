/** Which client library an app reports with: what its newest root run names. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import { api, ask } from "../api/client";
import { clientVersion } from "../run/client-version";
import { useRun } from "../run/use-run";
import { AGAIN_MS, type Query } from "./use-usage";

/** A line, or nothing where the run names no library. `query` filters by one app. */
export function AppClient({ query }: { query: Query }) {
  const newest = useQuery({
    queryKey: ["newest root", query],
    queryFn: ({ signal }) => {
      const asked = { ...query, root: "true", sort: "-started_at", limit: "1" };
      return ask(api.GET("/api/run", { params: { query: asked as object }, signal }));
    },
  });
  const run = newest.data?.data[0];
  const { data } = useRun(run ?? { run_id: "" }, { enabled: run !== undefined, staleTime: AGAIN_MS });
  const client = data && clientVersion(data);
  if (!client) return null;
  return (
    <p className="soft small" style={{ margin: 0 }}>
      The newest root run of this app was reported by{" "}
      <Link to={client.link} title="Runs of this app from this version of the client">
        {client.name} {client.version}
      </Link>
      .
    </p>
  );
}
