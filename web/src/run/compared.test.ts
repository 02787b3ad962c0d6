import { describe, expect, it } from "vitest";
import { dollars } from "../format";
import { differenceSaid, shareSaid } from "./compared";

describe("a difference", () => {
  const said = (a: number | null, b: number | null, wish: "less" | "neither" = "less") =>
    differenceSaid(
      { a, b, delta: a == null || b == null ? null : b - a, ratio: a && b != null ? b / a : null },
      dollars,
      wish,
    );

  it("says how much, in percent, and whether that is better", () => {
    expect(said(2, 1)).toEqual({ text: "−$1.00 (−50 %), B is better", outcome: "better" });
    expect(said(1, 2.5)).toEqual({ text: "+$1.50 (+150 %), B is worse", outcome: "worse" });
    expect(said(1, 2, "neither")).toEqual({ text: "+$1.00 (+100 %)", outcome: "other" });
  });

  it("of nothing, of the same, and from zero says no percent", () => {
    expect(said(1, 1).text).toBe("the same");
    expect(said(0, 1).text).toBe("+$1.00, B is worse");
    expect(said(null, 1)).toEqual({ text: "known only for B", outcome: "unknown" });
    expect(said(1, null).text).toBe("known only for A");
    expect(said(null, null).text).toBe("unknown in both");
  });

  it("of counts beyond 2^53 is said too", () => {
    const large = 9_007_199_254_740_993n as unknown as number;
    expect(differenceSaid({ a: 0, b: large, delta: large, ratio: null }, String, "neither").text).toBe(
      "+9007199254740992",
    );
  });

  it("that is large is a multiple, and a tiny one is still one", () => {
    expect([shareSaid(12.34), shareSaid(250), shareSaid(1.025), shareSaid(0.5), shareSaid(1.0001)]).toEqual([
      "12.3 ×",
      "250 ×",
      "+2.5 %",
      "−50 %",
      "<+0.1 %",
    ]);
  });
});
