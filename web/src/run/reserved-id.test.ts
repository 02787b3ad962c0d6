import { describe, expect, it } from "vitest";
import { reserved } from "./reserved-id";

describe("an id of a run", () => {
  it("that an address would take for something else is refused in plain words", () => {
    for (const id of [".", "..", "export", "live", "facets", "compare"]) expect(reserved(id)).toContain(`“${id}”`);
  });

  it("that leads up the path is refused below it too", () => {
    expect(reserved("..", true)).toBeDefined();
    expect(reserved("export", true)).toBeUndefined();
  });

  it("of any other kind is not", () => {
    for (const id of ["", "...", "Export", "export ", "a/b?c#d%2F", "live-1", "run"])
      expect(reserved(id)).toBeUndefined();
  });
});
