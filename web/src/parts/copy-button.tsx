/** Copies a text and says so. */

import { useEffect, useState } from "react";
import { copyText } from "./clipboard";

/** A button that copies what `text` gives when it is pressed. */
export function CopyButton({ label, text }: { label: string; text: string | (() => string) }) {
  const [said, setSaid] = useState<string>();
  useEffect(() => {
    if (!said) return;
    const timer = setTimeout(() => setSaid(undefined), 2_000);
    return () => clearTimeout(timer);
  }, [said]);
  const copy = async (near: Element) => {
    const isCopied = await copyText(typeof text === "string" ? text : text(), near);
    setSaid(isCopied ? "Copied" : "Not allowed");
  };
  return (
    <button type="button" onClick={(event) => copy(event.currentTarget)}>
      <span aria-live="polite">{said ?? label}</span>
    </button>
  );
}
