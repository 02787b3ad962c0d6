/** A question or a form above the page. Esc closes it, and focus goes back to where it was. */

import { type ReactNode, useId, useLayoutEffect, useRef } from "react";

type Props = { title: string; onClose: () => void; children: ReactNode };

/** A modal dialog that is open while it is there. */
export function Dialog({ title, onClose, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  // Before it leaves the page: only then does the browser give the focus back.
  useLayoutEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    return () => shown?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-labelledby={id}
      // Told late: a dialog that was shown again meanwhile, as React does while developing, stays.
      onClose={() => {
        if (!dialog.current?.open) onClose();
      }}
    >
      <div className="stack">
        <h2 id={id}>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

/** Asks before something that cannot be taken back. */
export function Confirm(props: {
  title: string;
  children: ReactNode;
  yes: string;
  isPending: boolean;
  onYes: () => void;
  onClose: () => void;
}) {
  return (
    <Dialog title={props.title} onClose={props.onClose}>
      {props.children}
      <div className="row">
        <button type="button" className="danger" disabled={props.isPending} onClick={props.onYes}>
          {props.yes}
        </button>
        <button type="button" onClick={props.onClose}>
          Cancel
        </button>
      </div>
    </Dialog>
  );
}
