/** Unique ids. */

/** 128 random bits in hex. `crypto.randomUUID` is there only in secure contexts; an address in a local network is none. */
export function randomId(): string {
  const random = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
