/** The clipboard, also where the browser keeps its own interface from pages that came over plain http. */

/** Copies a text; whether it could. `near` is what was pressed: in a dialog, nothing outside can be selected. */
export async function copyText(text: string, near: Element): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // There is none without a secure context, and it may be refused.
    return copySelected(text, near);
  }
}

function copySelected(text: string, near: Element): boolean {
  const field = document.createElement("textarea");
  field.value = text;
  field.readOnly = true;
  field.className = "unseen";
  (near.closest("dialog") ?? document.body).append(field);
  field.select();
  try {
    // Deprecated, and the only way there is over http.
    return document.execCommand("copy");
  } finally {
    field.remove();
    if (near instanceof HTMLElement) near.focus();
  }
}
