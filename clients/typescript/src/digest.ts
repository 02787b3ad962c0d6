/** SHA-256 of FIPS 180-4: browsers have it only as a promise, and not on every page. */

/** The first 32 bits behind the point. */
function fraction(value: number): number {
  return ((value - Math.floor(value)) * 2 ** 32) >>> 0;
}

const START: number[] = [];
const ROUNDS: number[] = [];

/** The constants are of the roots of the first primes. */
function constants(): void {
  for (let number = 2; ROUNDS.length < 64; number++) {
    let divisor = 2;
    while (divisor * divisor <= number && number % divisor !== 0) divisor++;
    if (divisor * divisor <= number) continue;
    if (START.length < 8) START.push(fraction(Math.sqrt(number)));
    ROUNDS.push(fraction(Math.cbrt(number)));
  }
}

function rotated(word: number, bits: number): number {
  return (word >>> bits) | (word << (32 - bits));
}

/** The hash of `bytes`, as 64 hexadecimal digits. */
export function sha256(bytes: Uint8Array): string {
  if (ROUNDS.length === 0) constants();
  // A one bit, zeros, and the number of bits in eight bytes fill the last block.
  const padded = new Uint8Array(Math.ceil((bytes.length + 9) / 64) * 64);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(bytes.length / 2 ** 29));
  view.setUint32(padded.length - 4, (bytes.length * 8) >>> 0);
  const hash = Int32Array.from(START);
  const words = new Int32Array(64);
  for (let block = 0; block < padded.length; block += 64) {
    for (let at = 0; at < 64; at++) words[at] = at < 16 ? view.getInt32(block + at * 4) : extended(words, at);
    compress(hash, words);
  }
  return Array.from(hash, (word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
}

function extended(words: Int32Array, at: number): number {
  const early = words[at - 15] as number;
  const late = words[at - 2] as number;
  const first = rotated(early, 7) ^ rotated(early, 18) ^ (early >>> 3);
  const second = rotated(late, 17) ^ rotated(late, 19) ^ (late >>> 10);
  return (words[at - 16] as number) + first + (words[at - 7] as number) + second;
}

function compress(hash: Int32Array, words: Int32Array): void {
  let [a, b, c, d, e, f, g, h] = hash as unknown as [number, number, number, number, number, number, number, number];
  for (let at = 0; at < 64; at++) {
    const chosen = (e & f) ^ (~e & g);
    const stirred = rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25);
    const first = (h + stirred + chosen + (ROUNDS[at] as number) + (words[at] as number)) | 0;
    const most = (a & b) ^ (a & c) ^ (b & c);
    const second = ((rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) + most) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
  }
  for (const [at, word] of [a, b, c, d, e, f, g, h].entries()) hash[at] = (hash[at] as number) + word;
}
