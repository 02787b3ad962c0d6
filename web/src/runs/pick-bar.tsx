/** What is picked for comparison, and the way there. */

import { Link } from "react-router";
import { compareLink } from "./run-link";
import { type Run, runKey } from "./use-runs";

type Props = { picks: Run[]; project: string | undefined; onClear: () => void };

/** The bar; nothing while nothing is picked. */
export function PickBar({ picks, project, onClear }: Props) {
  if (picks.length === 0) return null;
  const [a, b] = picks;
  // Two projects cannot be asked about at once.
  const link = a && b && a.project_id === b.project_id ? compareLink(a, b, project) : undefined;
  return (
    <div className="notice row" role="status">
      <span className="grow">
        {picks.map((run, index) => (
          <span key={runKey(run)}>
            {index > 0 && " and "}
            <bdi>
              <b>{(run.name || run.run_id).slice(0, 60)}</b>{" "}
              <span className="mono soft">{run.run_id.slice(0, 40)}</span>
            </bdi>
          </span>
        ))}
        {picks.length === 1 && " picked: pick another one to compare with."}
        {picks.length === 2 && !link && " belong to different projects and cannot be compared."}
      </span>
      {link && (
        <Link className="button primary" to={link}>
          Compare
        </Link>
      )}
      <button type="button" onClick={onClear}>
        Clear selection
      </button>
    </div>
  );
}
