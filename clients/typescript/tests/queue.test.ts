import fc from "fast-check";
import { expect, test } from "vitest";
import { BoundedQueue } from "../src/queue.js";

/** Adding an item of a size, or taking one. */
const steps = fc.array(fc.oneof(fc.record({ push: fc.integer({ min: 0, max: 50 }) }), fc.constant("shift" as const)), {
  maxLength: 300,
});

test("whatever is done to it, the queue keeps its bounds, its order and its sums", () => {
  fc.assert(
    fc.property(
      steps,
      fc.integer({ min: 1, max: 20 }),
      fc.integer({ min: 1, max: 200 }),
      (done, maxItems, maxBytes) => {
        const queue = new BoundedQueue<{ id: number; bytes: number }>(maxItems, maxBytes);
        const model: { id: number; bytes: number }[] = [];
        for (const [id, step] of done.entries()) {
          const sum = model.reduce((bytes, item) => bytes + item.bytes, 0);
          if (step === "shift") {
            expect(queue.shift()).toEqual(model.shift());
          } else {
            const fits = model.length < maxItems && sum + step.push <= maxBytes;
            expect(queue.push({ id, bytes: step.push }, step.push)).toBe(fits);
            if (fits) model.push({ id, bytes: step.push });
          }
          expect(queue.length).toBe(model.length);
          expect(queue.bytes).toBe(model.reduce((bytes, item) => bytes + item.bytes, 0));
          expect(queue.peek()).toEqual(model[0]);
          expect(queue.isFull).toBe(queue.length >= maxItems || queue.bytes >= maxBytes);
        }
      },
    ),
  );
});

test("a full queue says so before an item is made for it", () => {
  const queue = new BoundedQueue<string>(2, 100);
  queue.push("a", 1);
  queue.push("b", 1);
  expect(queue.isFull).toBe(true);
  queue.shift();
  expect(queue.isFull).toBe(false);
});
