/** The end of a form in a dialog: what went wrong, the button that sends it, and the one that does not. */

import type { ReactNode } from "react";
import { Failure } from "./notice";

type Props = {
  /** Why it was not sent, if it was tried. */
  error: unknown;
  isPending: boolean;
  /** What the button does, such as `Save`. */
  verb: string;
  /** What it says meanwhile, such as `Saving…`. */
  meanwhile: string;
  onCancel: () => void;
  /** Further buttons. */
  children?: ReactNode;
};

/** The failure and the buttons. */
export function FormEnd({ error, isPending, verb, meanwhile, onCancel, children }: Props) {
  return (
    <>
      {error != null && <Failure error={error} />}
      <div className="row">
        <button type="submit" className="primary" disabled={isPending}>
          {isPending ? meanwhile : verb}
        </button>
        <button type="button" onClick={onCancel}>
          Cancel
        </button>
        {children}
      </div>
    </>
  );
}
