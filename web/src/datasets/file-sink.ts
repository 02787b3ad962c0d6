/** Where an export goes: into a file that the user chose, or into memory and then to the downloads. */

/** Takes bytes as they come. */
export type FileSink = {
  write: (bytes: Uint8Array<ArrayBuffer>) => Promise<void>;
  /** All is there. */
  close: () => Promise<void>;
  /** It did not come to its end: nothing is kept. */
  drop: () => Promise<void>;
};

type PickerWindow = Window & {
  showSaveFilePicker?: (options: { suggestedName: string }) => Promise<FileSystemFileHandle>;
};

/** Bytes that are gathered before the browser may put them aside, on disk for instance. */
const PART = 8 * 1024 * 1024;
/** How long a download may take to begin. */
const DOWNLOAD_MS = 60_000;

/** Asks where the file should go, where the browser can; `undefined` if the user canceled. */
export async function openSink(name: string): Promise<FileSink | undefined> {
  const pick = (window as PickerWindow).showSaveFilePicker;
  if (!pick) return downloadSink(name);
  try {
    const handle = await pick.call(window, { suggestedName: name });
    const file = await handle.createWritable();
    return { write: (bytes) => file.write(bytes), close: () => file.close(), drop: () => file.abort() };
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") return undefined;
    // Not allowed to write there, or not allowed to ask: it goes to the downloads.
    return downloadSink(name);
  }
}

function downloadSink(name: string): FileSink {
  let parts: Blob[] = [];
  let open: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  const gather = () => {
    parts.push(new Blob(open));
    open = [];
    size = 0;
  };
  const forget = () => {
    parts = [];
    open = [];
  };
  return {
    write: async (bytes) => {
      open.push(bytes);
      size += bytes.length;
      if (size >= PART) gather();
    },
    close: async () => {
      gather();
      const address = URL.createObjectURL(new Blob(parts, { type: "application/octet-stream" }));
      const link = document.createElement("a");
      link.href = address;
      link.download = name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(address), DOWNLOAD_MS);
      forget();
    },
    drop: async () => forget(),
  };
}
