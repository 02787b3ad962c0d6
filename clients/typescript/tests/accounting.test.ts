import fc from "fast-check";
import { expect, test } from "vitest";
import { Spindle } from "../src/index.js";
import { made } from "./server.js";

/** What a request may meet. */
const outcomes = {
  taken: (events: number) => new Response(JSON.stringify({ accepted: events, rejected: 0 })),
  refused: (events: number) => new Response(JSON.stringify({ accepted: 0, rejected: events, errors: [{ code: "x" }] })),
  garbage: () => new Response("<html>"),
  failed: () => new Response("{}", { status: 500 }),
  away: () => {
    throw new TypeError("fetch failed");
  },
  silent: () => new Promise<Response>(() => {}),
};
type Outcome = keyof typeof outcomes;

/** What an application may do. */
const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ events: fc.integer({ min: 1, max: 30 }), chars: fc.integer({ min: 0, max: 3_000 }) }),
  },
  { weight: 3, arbitrary: fc.constant("flush" as const) },
  { weight: 2, arbitrary: fc.constant("turn" as const) },
  { weight: 1, arbitrary: fc.constant("close" as const) },
);

test("whatever the application does and requests meet, every event is in one place and the bounds hold", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 25 }),
      fc.infiniteStream(fc.constantFrom<Outcome>("taken", "taken", "refused", "garbage", "failed", "away", "silent")),
      async (steps, fates) => {
        let taken = 0;
        const bounds = { queueEvents: 40, batchEvents: 7, batchBytes: 2_048 };
        const spindle = new Spindle({
          url: "http://server",
          ...bounds,
          gzipBytes: Number.POSITIVE_INFINITY,
          flushIntervalMs: 1,
          requestTimeoutMs: 3,
          flushAtExit: false,
          warn: () => {},
          fetch: async (_, init) => {
            const text = String(init?.body);
            const { events } = JSON.parse(text);
            expect(text.length).toBeLessThanOrEqual(bounds.batchBytes);
            expect(events.length).toBeLessThanOrEqual(bounds.batchEvents);
            const fate = fates.next().value as Outcome;
            if (fate === "taken") taken += events.length;
            return outcomes[fate](events.length);
          },
        });
        let count = 0;
        const check = () => {
          const stats = spindle.stats();
          expect(made(stats)).toBe(count);
          expect(stats.waiting).toBeLessThanOrEqual(bounds.queueEvents + bounds.batchEvents);
          expect(stats.accepted + stats.rejected).toBeLessThanOrEqual(stats.sent);
        };
        for (const what of steps) {
          if (what === "flush") await spindle.flush(5);
          else if (what === "turn") await new Promise((next) => setImmediate(next));
          else if (what === "close") await spindle.close(1);
          else {
            for (let at = 0; at < what.events; at++) spindle.chat({ role: "user", content: "x".repeat(what.chars) });
            count += what.events;
          }
          check();
        }
        await spindle.close(1);
        check();
        const { waiting, accepted } = spindle.stats();
        expect(waiting).toBe(0);
        // An answer may arrive after its caller stopped waiting.
        expect(accepted).toBeLessThanOrEqual(taken);
      },
    ),
    { numRuns: 60 },
  );
});
