/** The model calls of a run that has several of its own. */

import { count, time } from "../format";
import { Failure, Loading } from "../parts/notice";
import { Wide } from "../parts/wide";
import { Said } from "./facts";
import { costSaid, tokensSaid } from "./figures";
import { CALLS_AT_ONCE, type RunDetail, useCalls } from "./use-run";

/** The table, by time. */
export function RunCalls({ run, projectId }: { run: RunDetail; projectId: string | undefined }) {
  const asked = useCalls(run, projectId);
  if (asked.isPending) return <Loading what="model calls" />;
  if (!asked.data) return <Failure error={asked.error} again={() => asked.refetch()} />;
  const calls = asked.data.pages.flatMap((page) => page.data);
  const all = asked.data.pages.at(-1)?.count ?? calls.length;
  return (
    <div className="stack">
      <Wide label="Model calls">
        <table className="plain">
          <thead>
            <tr>
              <th scope="col">Time</th>
              <th scope="col">Model</th>
              <th scope="col">Tokens</th>
              <th scope="col">Cost</th>
            </tr>
          </thead>
          <tbody>
            {calls.map((call, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: an event id may be used twice
              <tr key={index}>
                <td className="number">{time(call.at)}</td>
                <td>{call.model ? <Said text={call.model} /> : "not named"}</td>
                <td>{tokensSaid(call) ?? "none known"}</td>
                <td>{costSaid(call)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
      {asked.hasNextPage && (
        <div className="row">
          <button type="button" disabled={asked.isFetchingNextPage} onClick={() => asked.fetchNextPage()}>
            Show {count(Math.min(CALLS_AT_ONCE, all - calls.length))} more
          </button>
          <span className="soft small">
            {count(calls.length)} of {count(all)} calls
          </span>
        </div>
      )}
      {asked.isFetchNextPageError && <Failure error={asked.error} again={() => asked.fetchNextPage()} />}
    </div>
  );
}
