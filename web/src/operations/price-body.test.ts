import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BOUNDS, decimal, isGood, keptText, type PriceFields, priceBody, priceFault, readPrices } from "./price-body";

const fields: PriceFields = {
  input: "0.15",
  output: "0.6",
  cached_input: "",
  total: "",
  unit: "1m",
  effective_from: "",
  prefix: false,
};

describe("a price", () => {
  it("goes from the field into the body digit for digit", () => {
    const digits = fc.stringMatching(/^[1-9][0-9]{0,2}\.[0-9]{0,14}[1-9]$/);
    fc.assert(
      fc.property(digits, (price) => {
        const body = priceBody({ ...fields, input: price, unit: "1k" });
        expect(body).toBe(`{"input_per_1k":${price},"output_per_1k":0.6}`);
      }),
    );
  });

  it("keeps what the form has no fields for", () => {
    const answer = `{"data": [{"model": "m", "input_per_1m": 3, "output_per_1m": 15, "cache_write_per_1k": 0.00375,
      "cache_write_per_1m": 3.75, "request": 0.01, "service_tiers": {"batch": 0.5},
      "tiers": [{"above_input_tokens": 200000, "input_per_1k": 0.006, "input_per_1m": 6}]}]}`;
    const [row] = readPrices(answer);
    const rest = `"request":0.01,"tiers":[{"above_input_tokens":200000,"input_per_1m":6}],"service_tiers":{"batch":0.5}}`;
    expect(priceBody(fields, row)).toBe(`{"input_per_1m":0.15,"output_per_1m":0.6,"cache_write_per_1m":3.75,${rest}`);
    expect(priceBody({ ...fields, unit: "1k" }, row)).toContain(`"above_input_tokens":200000,"input_per_1k":0.006}`);
    expect(row && keptText(row, "1m")).toBe(
      "cache write 3.75; request 0.01; above 200,000 tokens: input 6; batch × 0.5",
    );
    const [plain] = readPrices('{"data": [{"model": "m", "input_per_1m": 3, "output_per_1m": 15}]}');
    expect(plain && keptText(plain, "1m")).toBe("");
  });

  it("comes from the answer digit for digit", () => {
    const [row] = readPrices('{"data": [{"model": "m", "input_per_1k": 0.123456789012345678, "total_per_1k": null}]}');
    expect(row).toEqual({ model: "m", input_per_1k: "0.123456789012345678", total_per_1k: null });
  });

  it("is a decimal that JSON has, however it is written", () => {
    expect([".5", "5.", "007", "0", "1.500", " 2 "].map(decimal)).toEqual(["0.5", "5", "7", "0", "1.5", "2"]);
    expect(["", ".", "-1", "1e3", "1,5", "NaN", "0x1", "1 2"].map(decimal)).toEqual(Array(8).fill(undefined));
    fc.assert(
      fc.property(fc.stringMatching(/^[0-9]{0,5}\.?[0-9]{0,5}$/), (text) => {
        const found = decimal(text);
        if (found !== undefined) expect(JSON.parse(found)).toBe(Number(text));
      }),
    );
  });

  it("has bounds that the field tells of", () => {
    expect(priceFault("", "1m", true)).toBeDefined();
    expect(priceFault("", "1m", false)).toBeUndefined();
    expect(priceFault("1000000", "1m", true)).toBeUndefined();
    expect(priceFault("1000000.1", "1m", true)).toMatch("1,000,000");
    expect(priceFault("99999999999999999999", "1m", true)).toMatch("1,000,000");
    expect(priceFault(`0.${"1".repeat(BOUNDS["1k"].digits)}`, "1k", true)).toBeUndefined();
    expect(priceFault(`0.${"1".repeat(BOUNDS["1k"].digits + 1)}`, "1k", true)).toMatch("15 decimal digits");
    expect(isGood(fields)).toBe(true);
    expect(isGood({ ...fields, total: "x" })).toBe(false);
  });

  it("may have a date and be for beginnings of names", () => {
    const body = priceBody({ ...fields, effective_from: '2026-01-01"', prefix: true, cached_input: "0" });
    expect(JSON.parse(body)).toEqual({
      input_per_1m: 0.15,
      output_per_1m: 0.6,
      cached_input_per_1m: 0,
      effective_from: '2026-01-01"',
      prefix: true,
    });
  });
});
