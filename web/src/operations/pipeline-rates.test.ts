import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { KEPT_MS, linePoints, rateText, type Sample, total, withSample } from "./pipeline-rates";
import type { Pipeline, PipelineProcess } from "./pipeline-shape";

const T0 = Date.parse("2026-11-21T10:00:00.000Z");

function process(name: string, accepted: number | null, stored: number | null = null): PipelineProcess {
  return {
    process: name,
    role: "serve",
    version: "0.1.0",
    endpoint: "http://a",
    ready: true,
    missing: [],
    silent_ms: 0,
    accepted_events: accepted,
    stored_events: stored,
    dead_lettered_events: null,
    rejected_events: null,
    stalled_partitions: [],
  };
}
function look(afterMs: number, processes: PipelineProcess[]): Pipeline {
  return { at: new Date(T0 + afterMs).toISOString(), processes, log: null, log_error: null, waiting_marks: null };
}
function samples(looks: Pipeline[]): Sample[] {
  return looks.reduce<Sample[]>(withSample, []);
}

describe("rates of the pipeline", () => {
  it("are what all processes gained, in a second", () => {
    const [first, second] = samples([
      look(0, [process("a", 100), process("b", 50)]),
      look(2_000, [process("a", 110), process("b", 60)]),
    ]);
    expect(first?.rates).toBeUndefined();
    expect(second?.rates?.accepted_events).toBe(10);
    expect(second?.rates?.stored_events).toBeNull();
  });

  it("reset with a restarted process, and are never below zero", () => {
    const last = samples([
      look(0, [process("a", 1_000), process("b", 10)]),
      look(2_000, [process("a", 3), process("b", 20), process("c", 5_000)]),
    ]).at(-1);
    expect(last?.rates?.accepted_events).toBe(5);
    const counters = fc.array(fc.option(fc.nat()), { minLength: 3, maxLength: 3 });
    fc.assert(
      fc.property(fc.array(counters, { minLength: 2, maxLength: 20 }), (runs) => {
        const looks = runs.map((values, i) =>
          look(
            i * 2_000,
            values.map((value, at) => process(`p${at}`, value)),
          ),
        );
        for (const sample of samples(looks)) {
          const rate = sample.rates?.accepted_events;
          if (rate != null) expect(rate).toBeGreaterThanOrEqual(0);
        }
      }),
    );
  });

  it("add up to what was counted without a reset", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(10_000), { minLength: 2, maxLength: 30 }), (gains) => {
        let sum = 0;
        const looks = gains.map((gain, i) => {
          sum += gain;
          return look(i * 2_000, [process("a", sum)]);
        });
        const seen = samples(looks).reduce((all, sample) => all + (sample.rates?.accepted_events ?? 0) * 2, 0);
        expect(seen).toBeCloseTo(sum - (gains[0] ?? 0), 3);
      }),
    );
  });

  it("forget what is long ago, and take no look twice", () => {
    const many = Array.from({ length: 300 }, (_, i) => look(i * 2_000, [process("a", i)]));
    const kept = samples(many);
    expect(kept.length).toBe(KEPT_MS / 2_000 + 1);
    expect(withSample(kept, many.at(-1) as Pipeline)).toBe(kept);
    expect(withSample(kept, look(0, [process("a", 1)]))).toHaveLength(1);
  });
});

describe("figures of the pipeline", () => {
  it("are sums of those that count", () => {
    expect(total([process("a", 1), process("b", null), process("c", 4)], "accepted_events")).toBe(5);
    expect(total([process("b", null)], "accepted_events")).toBeNull();
    expect([null, 0, 0.01, 2.55, 1234.5].map(rateText)).toEqual(["–", "0/s", "<0.1/s", "2.5/s", "1,235/s"]);
  });

  it("make a line with gaps", () => {
    const box = { width: 100, height: 10, fromMs: 0, toMs: 100, top: 2 };
    const at = (atMs: number, value: number | null) => ({ atMs, value });
    expect(linePoints([at(0, 0), at(50, 1), at(60, null), at(100, 2)], box)).toEqual([
      "0.0,10.0 50.0,5.0",
      "100.0,0.0",
    ]);
    expect(linePoints([], box)).toEqual([]);
  });
});
