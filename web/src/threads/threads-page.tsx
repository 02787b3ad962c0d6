/** Threads: conversations, that with the newest message first. */

import { useCallback, useMemo } from "react";
import { Link, useNavigate } from "react-router";
import { useRunFilter } from "../filters/use-filter";
import { ago, compact, count, dollars, time } from "../format";
import { CopyButton } from "../parts/copy-button";
import { Empty, Failure, Loading } from "../parts/notice";
import { Page } from "../parts/page";
import { type Column, DataTable } from "../table/data-table";
import { ThreadFilters } from "./thread-filters";
import { threadLink } from "./thread-link";
import { THREAD_FILTERS, type Thread, useThreads, WINDOW } from "./use-threads";

const cut = (text: string | null | undefined) =>
  text ? <bdi title={text.slice(0, 500)}>{text.slice(0, 160)}</bdi> : "–";
const COLUMNS: Column<Thread>[] = [
  {
    id: "preview",
    title: "Last message",
    width: "minmax(150px, 3fr)",
    cell: (thread) => (
      <Link to={threadLink(thread)} title={thread.preview?.slice(0, 500)}>
        <bdi>{thread.preview?.slice(0, 160) || thread.thread_id.slice(0, 160)}</bdi>
      </Link>
    ),
  },
  { id: "app", title: "App", width: "minmax(72px, 1fr)", cell: (thread) => cut(thread.app_id) },
  { id: "agent", title: "Agent", width: "minmax(120px, 1fr)", cell: (thread) => cut(thread.agent) },
  { id: "user", title: "User", width: "minmax(138px, 1.2fr)", cell: (thread) => cut(thread.user_email) },
  { id: "messages", title: "Messages", width: "86px", isNumber: true, cell: (thread) => count(thread.message_count) },
  {
    id: "tokens",
    title: "Tokens",
    width: "70px",
    isNumber: true,
    cell: (thread) => <span title={count(thread.total_tokens)}>{atLeast(thread, compact(thread.total_tokens))}</span>,
  },
  {
    id: "cost",
    title: "Cost",
    width: "88px",
    isNumber: true,
    cell: (thread) => atLeast(thread, dollars(thread.total_cost)),
  },
  {
    id: "started",
    title: "Started",
    width: "104px",
    cell: (thread) => <span title={time(thread.started_at)}>{ago(thread.started_at, Date.now())}</span>,
  },
  {
    id: "last",
    title: "Last",
    width: "104px",
    cell: (thread) => <span title={time(thread.ended_at)}>{ago(thread.ended_at, Date.now())}</span>,
  },
  {
    id: "grouped_by",
    title: "Grouped by",
    width: "104px",
    cell: (thread) =>
      thread.grouped_by === "window" ? (
        <span className="chip" title={WINDOW}>
          window
        </span>
      ) : (
        <span className="soft" title={`The thread ${thread.thread_id.slice(0, 300)}`}>
          thread id
        </span>
      ),
  },
];

/** A sum that may be higher. */
function atLeast(thread: Thread, text: string): string {
  return thread.totals_truncated ? `≥ ${text}` : text;
}

const rowKey = (thread: Thread) =>
  JSON.stringify([thread.project_id, thread.app_id, thread.grouped_by, thread.thread_id]);

/** The page. */
export default function ThreadsPage() {
  const { filter, setFilter } = useRunFilter();
  const threads = useThreads(filter);
  const navigate = useNavigate();
  const rows = useMemo(() => {
    // A thread that gets a message while pages are read may come twice.
    const seen = new Map<string, Thread>();
    for (const page of threads.data?.pages ?? []) {
      for (const thread of page.data) if (!seen.has(rowKey(thread))) seen.set(rowKey(thread), thread);
    }
    return [...seen.values()];
  }, [threads.data]);
  const { hasNextPage, isFetchingNextPage, isFetchNextPageError, fetchNextPage } = threads;
  const more = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage && !isFetchNextPageError) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, isFetchNextPageError, fetchNextPage]);
  const isFiltered = THREAD_FILTERS.some((name) => filter[name]);
  return (
    <Page title="Threads" fills>
      <ThreadFilters filter={filter} onChange={setFilter} />
      {threads.isPending && <Loading what="threads" />}
      {threads.isError && !isFetchNextPageError && (
        <Failure error={threads.error} again={() => void threads.refetch()} />
      )}
      {threads.isSuccess &&
        rows.length === 0 &&
        (isFiltered ? <NoMatch onReset={() => setFilter(onlyProject)} /> : <None />)}
      {rows.length > 0 && (
        <DataTable
          label="Threads"
          columns={COLUMNS}
          rows={rows}
          rowKey={rowKey}
          onEnd={more}
          onOpen={(thread) => navigate(threadLink(thread))}
          foot={isFetchNextPageError && <Failure error={threads.error} again={() => void fetchNextPage()} />}
        />
      )}
    </Page>
  );
}

function onlyProject({ project_id }: { project_id?: string }) {
  return project_id ? { project_id } : {};
}

function NoMatch({ onReset }: { onReset: () => void }) {
  return (
    <Empty title="No thread matches">
      <p className="soft">The time range applies to the last message of a thread.</p>
      <button type="button" onClick={onReset}>
        Show all threads
      </button>
    </Empty>
  );
}

/** How a message is reported. */
function None() {
  const event = {
    name: "chat",
    run_id: "run-1",
    thread_id: "thread-1",
    timestamp: new Date().toISOString(),
    role: "user",
    content: "Where is my order?",
    metadata: { agent: "support-agent", user_email: "ada@example.com" },
  };
  const command = [
    `curl ${window.location.origin}/api/report \\`,
    `  -H "Authorization: Bearer $SPINDLE_API_KEY" -H "Content-Type: application/json" \\`,
    `  -d '${JSON.stringify({ events: [event] })}'`,
  ].join("\n");
  return (
    <Empty title="No threads yet">
      <p className="soft">
        A message of a conversation is an event with the name <code>chat</code> with <code>role</code> (
        <code>user</code> or <code>assistant</code>) and <code>content</code>. Messages with the same{" "}
        <code>thread_id</code> are one thread; messages without one form a thread while each follows the previous one by
        at most 30 minutes.
      </p>
      <pre style={{ textAlign: "left", maxWidth: "100%" }}>{command}</pre>
      <CopyButton label="Copy" text={command} />
    </Empty>
  );
}
