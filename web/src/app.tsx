/** Routes, and what every page shares. Each page is a file of its own, so that the first one is there soon. */

import { QueryClientProvider } from "@tanstack/react-query";
import { lazy } from "react";
import { BrowserRouter, Navigate, Route, Routes } from "react-router";
import { queryClient } from "./api/query-client";
import { useRole } from "./api/session";
import { NotFound } from "./shell/not-found";
import { Shell } from "./shell/shell";

const PAGES = {
  RunsPage: () => import("./runs/runs-page"),
  RunPage: () => import("./run/run-page"),
  ComparePage: () => import("./run/compare-page"),
  CallsPage: () => import("./calls/calls-page"),
  ThreadsPage: () => import("./threads/threads-page"),
  ThreadPage: () => import("./threads/thread-page"),
  OverviewPage: () => import("./overview/overview-page"),
  DatasetsPage: () => import("./datasets/datasets-page"),
  OperationsPage: () => import("./operations/operations-page"),
};
const RunsPage = lazy(PAGES.RunsPage);
const RunPage = lazy(PAGES.RunPage);
const ComparePage = lazy(PAGES.ComparePage);
const CallsPage = lazy(PAGES.CallsPage);
const ThreadsPage = lazy(PAGES.ThreadsPage);
const ThreadPage = lazy(PAGES.ThreadPage);
const OverviewPage = lazy(PAGES.OverviewPage);
const DatasetsPage = lazy(PAGES.DatasetsPage);
const OperationsPage = lazy(PAGES.OperationsPage);

/** Fetches all pages while nothing else is to be done: then one can go from page to page while the server is away. */
export function fetchPages() {
  for (const page of Object.values(PAGES)) page().catch(() => undefined);
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
            <Route path="runs" element={<RunsPage />} />
            <Route path="runs/:runId" element={<RunPage />} />
            <Route path="compare" element={<ComparePage />} />
            <Route path="calls" element={<CallsPage />} />
            <Route path="threads" element={<ThreadsPage />} />
            <Route path="threads/:threadId" element={<ThreadPage />} />
            <Route path="overview" element={<OverviewPage />} />
            <Route path="datasets" element={<DatasetsPage />} />
            <Route path="operations/*" element={<OperationsPage />} />
            <Route path="*" element={<NotFound />} />
          </Route>
        </Routes>
      </BrowserRouter>
    </QueryClientProvider>
  );
}

/** The first page somebody may see. */
function Home() {
  return <Navigate to={useRole("viewer") ? "/runs" : "/operations"} replace />;
}
