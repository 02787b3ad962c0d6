/** Exports runs into a file, and shows how far it is. */

import { useEffect, useRef, useState } from "react";
import { bytes, count } from "../format";
import { Dialog } from "../parts/dialog";
import { Failure } from "../parts/notice";
import { ChatCheck } from "./chat-check";
import styles from "./export-dialog.module.css";
import { BrokenExport, type Progress, readExport } from "./export-stream";
import { openSink } from "./file-sink";
import type { ExportFormat } from "./row-counter";

const FORMATS: readonly { id: ExportFormat; label: string; about: string; isDataset?: true }[] = [
  { id: "jsonl", label: "JSON lines", about: "One run per line." },
  { id: "openai-jsonl", label: "Fine-tuning", about: "OpenAI chat lines from model calls.", isDataset: true },
  { id: "csv", label: "CSV", about: "For spreadsheets: formulas are escaped." },
  { id: "parquet", label: "Parquet", about: "For data tools: typed and compressed." },
];

type Props = {
  path: "/api/run/export" | "/api/dataset/export";
  /** Which runs. */
  query: Record<string, string | string[]>;
  /** How many there are, where that is known. */
  total?: number | undefined;
  onClose: () => void;
};

type State =
  | { is: "idle" }
  | { is: "running"; progress: Progress }
  | { is: "done"; progress: Progress }
  | { is: "cancelled" }
  | { is: "failed"; error: unknown };

/** The dialog. To close it is to cancel. */
export function ExportDialog({ path, query, total, onClose }: Props) {
  const isDataset = path === "/api/dataset/export";
  const [format, setFormat] = useState<ExportFormat>("jsonl");
  const [hasChildren, setChildren] = useState(false);
  const [state, setState] = useState<State>({ is: "idle" });
  const running = useRef<AbortController>(undefined);
  useEffect(() => () => running.current?.abort(), []);

  // Exports have one order.
  const { sort: _, ...filter } = query;
  const asked = { ...filter, ...(format === "openai-jsonl" && hasChildren ? { include: "children" } : {}) };
  const start = async () => {
    const sink = await openSink(fileName(isDataset, format));
    if (!sink) return;
    const stop = new AbortController();
    running.current = stop;
    let painted = 0;
    setState({ is: "running", progress: { bytes: 0, rows: undefined } });
    try {
      const progress = await readExport(path, asked, format, sink, stop.signal, (now) => {
        if (Date.now() - painted < 100) return;
        painted = Date.now();
        setState({ is: "running", progress: now });
      });
      setState({ is: "done", progress });
    } catch (error) {
      setState(stop.signal.aborted ? { is: "cancelled" } : { is: "failed", error });
    }
  };
  const isRunning = state.is === "running";
  return (
    <Dialog title={isDataset ? "Export the dataset" : "Export these runs"} onClose={onClose}>
      <fieldset className={styles.formats} disabled={isRunning}>
        <legend className="soft small">Format</legend>
        {FORMATS.filter((one) => isDataset || !one.isDataset).map((one) => (
          <label key={one.id} className={`line ${styles.format}`}>
            <input
              type="radio"
              name="format"
              value={one.id}
              checked={format === one.id}
              onChange={() => setFormat(one.id)}
            />
            <span>
              {one.label} <span className="soft small">{one.about}</span>
            </span>
          </label>
        ))}
      </fieldset>
      {format === "openai-jsonl" && (
        <>
          <label className="line">
            <input
              type="checkbox"
              checked={hasChildren}
              disabled={isRunning}
              onChange={(event) => setChildren(event.target.checked)}
            />
            Include model calls below saved runs
          </label>
          <ChatCheck key={JSON.stringify(asked)} query={asked} />
        </>
      )}
      <Outcome state={state} total={total} />
      <div className="row">
        {isRunning ? (
          <button type="button" className="danger" onClick={() => running.current?.abort()}>
            Cancel the export
          </button>
        ) : (
          <button type="button" className="primary" onClick={start}>
            {state.is === "idle" ? "Export" : "Export again"}
          </button>
        )}
        <button type="button" onClick={onClose}>
          Close
        </button>
      </div>
    </Dialog>
  );
}

function fileName(isDataset: boolean, format: ExportFormat): string {
  const day = new Date().toISOString().slice(0, 10);
  const ending = format === "openai-jsonl" ? "chat.jsonl" : format;
  return `spindle-${isDataset ? "dataset" : "runs"}-${day}.${ending}`;
}

function amount({ bytes: size, rows }: Progress): string {
  return rows === undefined ? bytes(size) : `${count(rows)} ${rows === 1 ? "row" : "rows"}, ${bytes(size)}`;
}

function Outcome({ state, total }: { state: State; total: number | undefined }) {
  if (state.is === "failed") {
    if (!(state.error instanceof BrokenExport)) return <Failure error={state.error} />;
    return (
      <div className="notice bad" role="alert">
        The export was interrupted after {amount(state.error.progress)}. The file would be incomplete, so nothing was
        kept. Export again.
      </div>
    );
  }
  const rows = state.is === "running" ? state.progress.rows : undefined;
  return (
    <>
      {state.is === "running" && (
        <>
          <progress
            className={styles.progress}
            aria-label="Progress of the export"
            {...(rows !== undefined && total ? { value: Math.min(rows, total), max: total } : {})}
          />
          <p className="soft number">{amount(state.progress)} so far. Closing this cancels the export.</p>
        </>
      )}
      <div role="status">
        {state.is === "done" && <p className="notice good">Exported: {amount(state.progress)}.</p>}
        {state.is === "cancelled" && <p className="notice">Canceled. No file was saved.</p>}
      </div>
    </>
  );
}
