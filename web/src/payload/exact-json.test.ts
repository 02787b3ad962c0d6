import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseExact, writeExact } from "./exact-json";

const LARGE =
  '{"id":12345678901234567890,"list":[-9007199254740993,9007199254740991,1.5,1e30],"text":"12345678901234567890"}';

describe("JSON with large whole numbers", () => {
  it("comes back as it was, where the engine can", () => {
    const canBeExact = "rawJSON" in JSON;
    const read = parseExact(LARGE);
    expect(writeExact(read)).toBe(canBeExact ? LARGE.replace("1e30", "1e+30") : JSON.stringify(JSON.parse(LARGE)));
    if (canBeExact)
      expect(read).toMatchObject({
        id: 12345678901234567890n,
        list: [-9007199254740993n, 9007199254740991, 1.5, 1e30],
      });
  });

  it("is otherwise JSON as anywhere", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = JSON.stringify(value);
        expect(writeExact(parseExact(text))).toBe(JSON.stringify(JSON.parse(text)));
      }),
    );
  });
});
