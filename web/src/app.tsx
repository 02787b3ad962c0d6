/** Routes, and what every page shares. Pages are loaded when they are first looked at. */

import { QueryClientProvider } from "@tanstack/react-query";
import { lazy } from "react";
import { BrowserRouter, Navigate, Route, Routes } from "react-router";
import { queryClient } from "./api/query-client";
import { useRole } from "./api/session";
import { NotFound } from "./shell/not-found";
import { Shell } from "./shell/shell";

const RunsPage = lazy(() => import("./runs/runs-page"));
const RunPage = lazy(() => import("./run/run-page"));
const ComparePage = lazy(() => import("./run/compare-page"));
const CallsPage = lazy(() => import("./calls/calls-page"));
const ThreadsPage = lazy(() => import("./threads/threads-page"));
const ThreadPage = lazy(() => import("./threads/thread-page"));
const OverviewPage = lazy(() => import("./overview/overview-page"));
const DatasetsPage = lazy(() => import("./datasets/datasets-page"));
const OperationsPage = lazy(() => import("./operations/operations-page"));

/** The application. */
export function App() {
  return (
    <QueryClientProvider client={queryClient}>
      <BrowserRouter>
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
