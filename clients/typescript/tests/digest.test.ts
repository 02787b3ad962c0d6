import { createHash } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { sha256 } from "../src/digest.js";

test("the hash is SHA-256, for any bytes and at every length around a block", () => {
  const check = (bytes: Uint8Array) => {
    expect(sha256(bytes)).toBe(createHash("sha256").update(bytes).digest("hex"));
  };
  for (let length = 0; length <= 130; length++) check(new Uint8Array(length).fill(length));
  fc.assert(fc.property(fc.uint8Array({ maxLength: 1_000 }), check));
});
