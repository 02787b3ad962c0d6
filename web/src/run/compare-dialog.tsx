/** Which run to compare with: one of the newest of the same name, or any by its id. */

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useNavigate } from "react-router";
import { api, ask } from "../api/client";
import { dollars, duration, time } from "../format";
import { Dialog } from "../parts/dialog";
import { Failure, Loading } from "../parts/notice";
import { Status } from "../parts/status";
import { Wide } from "../parts/wide";
import { compareLink } from "../runs/run-link";
import { runKey } from "../runs/use-runs";
import { Said } from "./facts";
import type { RunDetail } from "./use-run";

const RECENT = 8;

type Props = { run: RunDetail; projectId: string | undefined; onClose: () => void };

/** The choice. */
export function CompareDialog({ run, projectId, onClose }: Props) {
  const navigate = useNavigate();
  const [id, setId] = useState("");
  const query = {
    app_id: run.app_id,
    limit: RECENT + 1,
    ...(run.name ? { name: run.name } : {}),
    ...(projectId ? { project_id: projectId } : {}),
  };
  const recent = useQuery({
    queryKey: ["recent-runs", query],
    queryFn: ({ signal }) => ask(api.GET("/api/run", { params: { query }, signal })),
  });
  const others = recent.data?.data.filter((other) => other.run_id !== run.run_id).slice(0, RECENT);
  return (
    <Dialog title="Compare with another run" onClose={onClose}>
      <form
        className="row"
        onSubmit={(event) => {
          event.preventDefault();
          if (id.trim()) navigate(compareLink(run, { run_id: id.trim() }, projectId));
        }}
      >
        <label className="grow">
          Id of the other run
          <input value={id} required spellCheck={false} onChange={(event) => setId(event.target.value)} />
        </label>
        <button type="submit" className="primary" style={{ alignSelf: "flex-end" }}>
          Compare
        </button>
      </form>
      <h3>Newest runs {run.name ? "of the same name" : "of the app"}</h3>
      {recent.isPending && <Loading what="runs" />}
      {recent.isError && <Failure error={recent.error} again={() => recent.refetch()} />}
      {others?.length === 0 && <p className="soft">There is no other.</p>}
      {others && others.length > 0 && (
        <Wide label="Runs to compare with">
          <table className="plain">
            <thead>
              <tr>
                <th>Run</th>
                <th>Status</th>
                <th>Started</th>
                <th className="number">Latency</th>
                <th className="number">Total cost</th>
              </tr>
            </thead>
            <tbody>
              {others.map((other) => (
                <tr key={runKey(other)}>
                  <td>
                    <Link to={compareLink(run, other, projectId)}>
                      <Said text={other.run_id} most={40} />
                    </Link>
                  </td>
                  <td>
                    <Status status={other.status} stale={other.stale} />
                  </td>
                  <td>{time(other.started_at)}</td>
                  <td className="number">{duration(other.latency_s)}</td>
                  <td className="number">{dollars(other.total_cost)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Wide>
      )}
      <div className="row">
        <button type="button" onClick={onClose}>
          Cancel
        </button>
      </div>
    </Dialog>
  );
}
