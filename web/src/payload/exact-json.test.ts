import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ExactNumber, parseExact, writeExact } from "./exact-json";

const LARGE =
  '{"id":12345678901234567890,"list":[-9007199254740993,9007199254740991,1.5,1e30],"text":"12345678901234567890"}';

describe("JSON with large whole numbers", () => {
  it("comes back as it was", () => {
    const read = parseExact(LARGE);
    expect(writeExact(read)).toBe(LARGE.replace("1e30", "1e+30"));
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

  it("keeps fractions and powers that no number of JavaScript's is", () => {
    const odd = [
      "1e400",
      "-1e400",
      "1e-400",
      "0.1234567890123456789",
      "12345678.9012345678",
      "3.14159265358979323846E2",
      `1${"0".repeat(400)}`,
    ];
    for (const digits of odd) {
      const read = parseExact(`{"a":[${digits}]}`) as { a: unknown[] };
      expect(read.a[0]).toBeInstanceOf(ExactNumber);
      expect(String(read.a[0])).toBe(digits);
      expect(writeExact(read)).toBe(`{"a":[${digits}]}`);
      expect(JSON.stringify(read)).toBe(`{"a":[${digits}]}`);
    }
  });

  it("leaves what is the same number, however it is written", () => {
    const text =
      "[1.50000000000000000000, 0.0000000000000000000000001, 1e100, 1E+300, 0.000000000000000000, 5e-324, 100.0]";
    expect(parseExact(text)).toEqual([1.5, 1e-25, 1e100, 1e300, 0, 5e-324, 100]);
  });

  it("is read in no time where a number is very long", () => {
    const started = performance.now();
    parseExact(`[1${"0".repeat(300_000)}1, 0.${"0".repeat(300_000)}1, 1.${"0".repeat(300_000)}]`);
    expect(performance.now() - started).toBeLessThan(2_000);
  });

  it("changes no finite number", () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
        const read = parseExact(`[${JSON.stringify(value)},1e400]`) as [number | bigint];
        expect(Number(read[0])).toBe(value === 0 ? 0 : value);
        expect(read[0]).not.toBeInstanceOf(ExactNumber);
      }),
    );
  });
});
