/** The keys of the list of runs. */

import { useState } from "react";
import { Dialog } from "../parts/dialog";
import { useKeys } from "../parts/keys";

const KEYS = [
  ["j or ↓", "Next run"],
  ["k or ↑", "Run before"],
  ["Home, End", "First, last loaded run"],
  ["Enter", "Open the run"],
  ["x", "Pick the run for comparison"],
  ["/", "Search"],
  ["Esc", "Leave the search, clear the selected run"],
  ["?", "This list"],
] as const;

/** A button and a key that show them. */
export function KeyHelp() {
  const [isOpen, setOpen] = useState(false);
  useKeys({ "?": () => setOpen(true) });
  return (
    <>
      <button type="button" aria-label="Keys" title="Keys (?)" onClick={() => setOpen(true)}>
        ?
      </button>
      {isOpen && (
        <Dialog title="Keys" onClose={() => setOpen(false)}>
          <table className="plain">
            <thead>
              <tr>
                <th scope="col">Key</th>
                <th scope="col">What it does</th>
              </tr>
            </thead>
            <tbody>
              {KEYS.map(([key, what]) => (
                <tr key={key}>
                  <td>
                    <kbd className="mono">{key}</kbd>
                  </td>
                  <td>{what}</td>
                </tr>
              ))}
            </tbody>
          </table>
          <button type="button" onClick={() => setOpen(false)}>
            Close
          </button>
        </Dialog>
      )}
    </>
  );
}
