/** Routes, and what every page shares. Each page is a file of its own, so that the first one is there soon. */

import { QueryClientProvider } from "@tanstack/react-query";
import { type ComponentType, lazy, useState } from "react";
import { BrowserRouter, Navigate, Route, Routes } from "react-router";
import { queryClient } from "./api/query-client";
import { useRole } from "./api/session";
import { NotFound } from "./shell/not-found";
import { Shell } from "./shell/shell";

/** A page in a file of its own. Once it was fetched it is shown at once: what waits for a moment, React holds back for more. */
function later(load: () => Promise<{ default: ComponentType }>) {
  let here: ComponentType | undefined;
  const fetch = async () => {
    const loaded = await load();
    here = loaded.default;
    return loaded;
  };
  const Later = lazy(fetch);
  function Place() {
    const [Shown] = useState(() => here ?? Later);
    return <Shown />;
  }
  return { fetch, Place };
}

const PAGES = {
  runs: later(() => import("./runs/runs-page")),
  run: later(() => import("./run/run-page")),
  compare: later(() => import("./run/compare-page")),
  calls: later(() => import("./calls/calls-page")),
  threads: later(() => import("./threads/threads-page")),
  thread: later(() => import("./threads/thread-page")),
  overview: later(() => import("./overview/overview-page")),
  datasets: later(() => import("./datasets/datasets-page")),
  operations: later(() => import("./operations/operations-page")),
};

/** Begins to fetch the page of this address, while the server is still asked who looks at it. */
export function fetchPageOf(path: string) {
  const [, place = "", one] = path.split("/");
  const several = { runs: PAGES.run, threads: PAGES.thread }[place];
  const page = (one ? several : undefined) ?? PAGES[(place || "runs") as keyof typeof PAGES];
  page?.fetch().catch(() => undefined);
}

/** Fetches all pages while nothing else is to be done: then one can go from page to page while the server is away. */
export function fetchPages() {
  for (const page of Object.values(PAGES)) page.fetch().catch(() => undefined);
}

/** The application. */
export function App() {
  return (
    <QueryClientProvider client={queryClient}>
      {/* Controls show the address: put off, a change would let them jump back for a moment. */}
      <BrowserRouter useTransitions={false}>
        <Routes>
          <Route element={<Shell />}>
            <Route index element={<Home />} />
            <Route path="sign-in" element={<Home />} />
            <Route path="runs" element={<PAGES.runs.Place />} />
            <Route path="runs/:runId" element={<PAGES.run.Place />} />
            <Route path="compare" element={<PAGES.compare.Place />} />
            <Route path="calls" element={<PAGES.calls.Place />} />
            <Route path="threads" element={<PAGES.threads.Place />} />
            <Route path="threads/:threadId" element={<PAGES.thread.Place />} />
            <Route path="overview" element={<PAGES.overview.Place />} />
            <Route path="datasets" element={<PAGES.datasets.Place />} />
            <Route path="operations/*" element={<PAGES.operations.Place />} />
            <Route path="*" element={<NotFound />} />
          </Route>
        </Routes>
      </BrowserRouter>
    </QueryClientProvider>
  );
}

/** The first page that the user may see. */
function Home() {
  return <Navigate to={useRole("viewer") ? "/runs" : "/operations"} replace />;
}
