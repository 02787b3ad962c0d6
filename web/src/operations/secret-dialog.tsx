/** Shows a secret once. It is in the component that shows it and nowhere else, and gone with the dialog. */

import { CopyButton } from "../parts/copy-button";
import { Dialog } from "../parts/dialog";
import styles from "./operations.module.css";

type Props = {
  /** What it is the secret of. */
  what: string;
  secret: string;
  onClose: () => void;
};

/** The dialog. */
export function SecretDialog({ what, secret, onClose }: Props) {
  return (
    <Dialog title={`The secret of ${what}`} onClose={onClose}>
      <p className="notice warn">Copy it now: only its hash is stored, and it is never shown again.</p>
      <code className={styles.secret}>{secret}</code>
      <div className="row">
        <CopyButton label="Copy the secret" text={secret} />
        <button type="button" className="primary" onClick={onClose}>
          Done
        </button>
      </div>
    </Dialog>
  );
}
