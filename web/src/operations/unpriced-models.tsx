/** Models that were used and have no price: they cost nothing until a price is set. */

import { useQuery } from "@tanstack/react-query";
import { api, ask } from "../api/client";
import { compact, count, time } from "../format";
import { Failure, Loading } from "../parts/notice";
import { useProject } from "../shell/project";
import styles from "./operations.module.css";
import { WideTable } from "./wide-table";

/** The list; nothing where every model has a price. */
export function UnpricedModels({ onSet }: { onSet: (model: string) => void }) {
  const project = useProject();
  const unpriced = useQuery({
    queryKey: ["unpriced", project],
    queryFn: ({ signal }) =>
      ask(api.GET("/api/analytics/unpriced", { params: { query: project ? { project_id: project } : {} }, signal })),
    staleTime: 30_000,
  });
  if (unpriced.isPending) return <Loading what="models without a price" />;
  if (unpriced.isError) return <Failure error={unpriced.error} again={() => unpriced.refetch()} />;
  if (unpriced.data.data.length === 0) return <p className="soft">Every model in use has a price.</p>;
  return (
    <section className="card stack" aria-label="Models without a price">
      <h2>Models without a price</h2>
      <p className="soft">Their calls cost 0 until you set a price and recalculate costs.</p>
      <WideTable
        label="Models without a price"
        heads={["Model", "Calls", "Prompt", "Answer", "All tokens", "Last seen", ""]}
        figures={["Calls", "Prompt", "Answer", "All tokens"]}
      >
        {unpriced.data.data.map((one) => (
          <tr key={one.model}>
            <td dir="auto" className="mono">
              {one.model}
            </td>
            <td className="number">{count(one.calls)}</td>
            <td className="number">{compact(one.prompt_tokens)}</td>
            <td className="number">{compact(one.completion_tokens)}</td>
            <td className="number">{compact(one.total_tokens)}</td>
            <td className={styles.time}>{time(one.last_seen)}</td>
            <td>
              <button type="button" onClick={() => onSet(one.model)}>
                Set a price<span className="unseen"> for {one.model}</span>
              </button>
            </td>
          </tr>
        ))}
      </WideTable>
      {unpriced.data.truncated && <p className="soft">There are more models; these have the most tokens.</p>}
    </section>
  );
}
