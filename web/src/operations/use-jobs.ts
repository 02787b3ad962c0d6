/** Jobs of the server: what they are, followed while they work. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, ask, type Shapes } from "../api/client";

/** A job. */
export type Job = Shapes["Job"];
/** How often a job that works is asked for. */
const FOLLOW_MS = 1_000;

/** Whether it is not over. */
export function isOpen(job: Job): boolean {
  return job.state === "queued" || job.state === "running";
}

/** The newest jobs. */
export function useJobs() {
  return useQuery({
    queryKey: ["jobs"],
    queryFn: ({ signal }) => ask(api.GET("/api/internal/jobs", { signal })),
    refetchInterval: (query) => (query.state.data?.data.some(isOpen) ? 2 * FOLLOW_MS : 15_000),
  });
}

/** One job. */
export function useJob(id: string) {
  return useQuery({
    queryKey: ["jobs", id],
    queryFn: ({ signal }) => ask(api.GET("/api/internal/jobs/{id}", { params: { path: { id } }, signal })),
    refetchInterval: (query) => (query.state.data && !isOpen(query.state.data) ? false : FOLLOW_MS),
  });
}

/** Ends a job. */
export function useCancel(id: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: () => ask(api.POST("/api/internal/jobs/{id}/cancel", { params: { path: { id } } })),
    onSuccess: (job) => {
      client.setQueryData(["jobs", id], job);
      client.invalidateQueries({ queryKey: ["jobs"] });
    },
  });
}

/** Begins a job; `onBegun` gets it. */
export function useBegin<Asked>(begin: (asked: Asked) => Promise<Job>, onBegun: (job: Job) => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: begin,
    onSuccess: (job) => {
      client.setQueryData(["jobs", job.job_id], job);
      client.invalidateQueries({ queryKey: ["jobs"], exact: true });
      onBegun(job);
    },
  });
}
