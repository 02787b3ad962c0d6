/** Copies a text and says so. */

import { useEffect, useState } from "react";

/** A button that copies what `text` gives when it is pressed. */
export function CopyButton({ label, text }: { label: string; text: string | (() => string) }) {
  const [said, setSaid] = useState<string>();
  useEffect(() => {
    if (!said) return;
    const timer = setTimeout(() => setSaid(undefined), 2_000);
    return () => clearTimeout(timer);
  }, [said]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(typeof text === "string" ? text : text());
      setSaid("Copied");
    } catch {
      // Browsers refuse without a secure context or permission.
      setSaid("Not allowed");
    }
  };
  return (
    <button type="button" onClick={copy}>
      <span aria-live="polite">{said ?? label}</span>
    </button>
  );
}
