/** Reads an export as it comes, and says how far it is. */

import { ApiFault, faultOf, queryText } from "../api/client";
import { queryClient, SESSION } from "../api/query-client";
import type { FileSink } from "./file-sink";
import { type ExportFormat, rowCounter } from "./row-counter";

/** How far an export is. */
export type Progress = { bytes: number; rows: number | undefined };

/** It broke off in the middle. */
export class BrokenExport extends Error {
  override name = "BrokenExport";
  constructor(readonly progress: Progress) {
    super("The export was interrupted before its end.");
  }
}

/** Reads the export at this address into `sink`. Nothing that ends well is short: a cut is an error of the stream. */
export async function readExport(
  path: string,
  query: Record<string, unknown>,
  format: ExportFormat,
  sink: FileSink,
  signal: AbortSignal,
  onProgress: (progress: Progress) => void,
): Promise<Progress> {
  const counter = rowCounter(format);
  const progress: Progress = { bytes: 0, rows: counter.rows() };
  try {
    const answer = await ask(`${path}?${queryText({ ...query, format })}`, signal);
    const reader = answer.body?.getReader();
    while (reader) {
      const { done, value } = await reader.read().catch((error: unknown) => {
        throw signal.aborted ? error : new BrokenExport({ ...progress });
      });
      if (done) break;
      counter.take(value);
      progress.bytes += value.length;
      progress.rows = counter.rows();
      onProgress({ ...progress });
      await sink.write(value);
    }
    await sink.close();
    return progress;
  } catch (error) {
    await sink.drop().catch(() => {});
    throw error;
  }
}

async function ask(address: string, signal: AbortSignal): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(address, { signal });
  } catch (error) {
    if (signal.aborted) throw error;
    throw new ApiFault(0, "unreachable", "The server does not answer.");
  }
  if (answer.ok) return answer;
  if (answer.status === 401) queryClient.invalidateQueries({ queryKey: SESSION });
  throw faultOf(answer.status, await answer.json().catch(() => undefined));
}
