/** What an export for fine-tuning would hold, before one makes it. */

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "react-router";
import { api, ask, type Shapes } from "../api/client";
import { count } from "../format";
import { Failure } from "../parts/notice";
import { runLink } from "../runs/run-link";

type ChatReport = Shapes["ChatReport"];

const REASONS: Record<string, string> = {
  not_llm: "not a model call",
  no_input: "no input",
  input_shape: "input is not a conversation",
  no_output: "no output",
  output_shape: "output is not an answer",
};

/** A button and what it finds. */
export function ChatCheck({ query }: { query: Record<string, string | string[]> }) {
  const [isWanted, setWanted] = useState(false);
  const check = useQuery({
    queryKey: ["chat-check", query],
    queryFn: ({ signal }) => {
      const asked = { ...query, format: "openai-jsonl", check: true };
      return ask(api.GET("/api/dataset/export", { params: { query: asked as object }, signal })) as Promise<unknown>;
    },
    enabled: isWanted,
  });
  return (
    <div className="stack">
      <div>
        <button
          type="button"
          disabled={check.isFetching}
          onClick={() => (isWanted ? check.refetch() : setWanted(true))}
        >
          {check.isFetching ? "Checking…" : "Check which runs can be exported"}
        </button>
      </div>
      {check.isError && <Failure error={check.error} />}
      {check.data !== undefined && <Report report={check.data as ChatReport} />}
    </div>
  );
}

function Report({ report }: { report: ChatReport }) {
  return (
    <div className="notice stack" role="status">
      <span>
        {count(report.lines)} {report.lines === 1 ? "line" : "lines"} from {count(report.runs)} saved runs;{" "}
        {count(report.left_out)} left out{report.complete ? "." : ", of the runs checked within the time limit."}
      </span>
      {report.left_out > 0 && (
        <>
          <ul className="small">
            {Object.entries(report.reasons).map(([reason, many]) => (
              <li key={reason}>
                {count(many)}: {REASONS[reason] ?? reason}
              </li>
            ))}
          </ul>
          <details className="small">
            <summary>Examples</summary>
            <ul>
              {report.examples.slice(0, 10).map((one, index) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: runs of two projects may have one name here
                <li key={index}>
                  <Link to={runLink(one)}>
                    <bdi>{one.run_id.slice(0, 80)}</bdi>
                  </Link>{" "}
                  ({REASONS[one.reason] ?? one.reason})
                </li>
              ))}
            </ul>
          </details>
        </>
      )}
    </div>
  );
}
