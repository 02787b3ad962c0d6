/** A conversation: what was said, what it cost, and what people thought of it. */

import type { ReactNode } from "react";
import { Link, useLocation, useSearchParams } from "react-router";
import { ApiFault } from "../api/client";
import { compact, count, dollars, time } from "../format";
import { Empty, Failure, Loading } from "../parts/notice";
import { Page } from "../parts/page";
import { nameIn } from "../runs/run-link";
import { MessageList } from "./message-list";
import styles from "./thread.module.css";
import { runsOfThreadLink, threadLink } from "./thread-link";
import { type ThreadDetail, useThread, WINDOW } from "./use-threads";

/** The page. */
export default function ThreadPage() {
  const { pathname } = useLocation();
  const [params] = useSearchParams();
  const name = {
    thread_id: nameIn(pathname),
    app_id: params.get("app_id"),
    grouped_by: params.get("grouped_by"),
    project_id: params.get("project_id"),
  };
  const asked = useThread(name);
  const thread = asked.data;
  const all = name.project_id ? `/threads?project_id=${encodeURIComponent(name.project_id)}` : "/threads";
  return (
    <Page
      title="Thread"
      fills
      actions={
        <Link className="button" to={all}>
          All threads
        </Link>
      }
    >
      {asked.isPending && <Loading what="the thread" />}
      {asked.isError && !thread && isMissing(asked.error) && (
        <Empty title="Thread not found">
          <p className="soft">
            No message and no run has the thread <bdi className="mono">{name.thread_id.slice(0, 300)}</bdi>, or you
            cannot read its project.
          </p>
        </Empty>
      )}
      {asked.isError && !thread && !isMissing(asked.error) && (
        <Failure error={asked.error} again={() => void asked.refetch()} />
      )}
      {thread && (
        <>
          <Facts thread={thread} />
          <Remarks thread={thread} />
          {asked.isError && <Failure error={asked.error} again={() => void asked.refetch()} />}
          {thread.message_count === 0 && (
            <Empty title="No messages">
              <p className="soft">Runs have this thread, but none of its topmost runs has an input or an output.</p>
              <Link className="button" to={runsOfThreadLink(name)}>
                Runs of this thread
              </Link>
            </Empty>
          )}
          <MessageList key={`${thread.project_id} ${thread.app_id} ${thread.thread_id}`} thread={thread} />
        </>
      )}
    </Page>
  );
}

function isMissing(error: unknown): boolean {
  return error instanceof ApiFault && error.status === 404;
}

function Facts({ thread }: { thread: ThreadDetail }) {
  const least = thread.totals_truncated ? "≥ " : "";
  return (
    <dl className={`card ${styles.facts}`}>
      <Fact name="Thread">
        <bdi className="mono" title={thread.thread_id}>
          {thread.thread_id.slice(0, 120)}
        </bdi>{" "}
        {thread.grouped_by === "window" && (
          <span className="chip" title={WINDOW}>
            window
          </span>
        )}
      </Fact>
      <Fact name="App">
        <bdi>{thread.app_id.slice(0, 120)}</bdi>
      </Fact>
      <Fact name="Agent">
        <bdi>{thread.agent?.slice(0, 120) ?? "–"}</bdi>
      </Fact>
      <Fact name="User">
        <bdi>{thread.user_email?.slice(0, 120) ?? "–"}</bdi>
      </Fact>
      <Fact name="Messages">{count(thread.message_count)}</Fact>
      <Fact name="Tokens">
        <span title={count(thread.total_tokens)}>
          {least}
          {compact(thread.total_tokens)}
        </span>
      </Fact>
      <Fact name="Cost">
        {least}
        {dollars(thread.total_cost)}
      </Fact>
      <Fact name="Started">{time(thread.started_at)}</Fact>
      <Fact name="Last message">{time(thread.ended_at)}</Fact>
    </dl>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** What is not as one would think. */
function Remarks({ thread }: { thread: ThreadDetail }) {
  const others = thread.also_in_apps ?? [];
  return (
    <>
      {thread.truncated && (
        <p className="notice warn">
          Only the first {count(thread.messages.length)} of {count(thread.message_count)} messages are shown.
        </p>
      )}
      {thread.totals_truncated && (
        <p className="notice">Tokens and cost cover only part of its runs: it has too many to sum.</p>
      )}
      {others.length > 0 && (
        <p className="notice">
          A thread with this id also exists in{" "}
          {others.map((app_id, index) => (
            <span key={app_id}>
              {index > 0 && ", "}
              <Link
                to={threadLink({
                  thread_id: thread.thread_id,
                  app_id,
                  grouped_by: thread.grouped_by,
                  project_id: thread.project_id,
                })}
              >
                <bdi>{app_id.slice(0, 120)}</bdi>
              </Link>
            </span>
          ))}
          .
        </p>
      )}
    </>
  );
}
