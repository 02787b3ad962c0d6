import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { compareLink, nameIn, runLink } from "./run-link";

describe("the address of a run", () => {
  it("leads back to its id, whatever is in it", () => {
    const ids = fc.oneof(fc.string({ minLength: 1, unit: "binary" }), fc.constantFrom("a/b?c#d%2F", "%", "é %25/"));
    fc.assert(
      fc.property(ids, (id) => {
        const { pathname } = new URL(`http://x${runLink({ run_id: `-${id}`, app_id: "a" })}`);
        expect(nameIn(pathname)).toBe(`-${id}`);
      }),
    );
    expect(nameIn("/runs/100%")).toBe("100%");
    expect(nameIn("/runs/a%2F/")).toBe("a/");
  });

  it("of two runs holds both with their apps", () => {
    const link = compareLink({ run_id: "a&b", app_id: "x" }, { run_id: "c" }, "p");
    expect(link).toBe("/compare?a=a%26b&a_app=x&b=c&project_id=p");
    const own = compareLink({ run_id: "a", project_id: "q" }, { run_id: "c", project_id: "q" }, "p");
    expect(own).toBe("/compare?a=a&b=c&project_id=q");
  });
});
