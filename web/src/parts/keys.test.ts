import { describe, expect, it } from "vitest";
import { isTakenBy } from "./keys";

const input = (type: string) => ({ tagName: "INPUT", type });

describe("a key pressed on an element", () => {
  it("is the user's typing in a text field", () => {
    for (const type of ["text", "search", "number", "datetime-local", "password"]) {
      for (const key of ["j", "/", "x", "ArrowDown", "Escape"]) expect(isTakenBy(input(type), key)).toBe(true);
    }
    expect(isTakenBy({ tagName: "TEXTAREA" }, "j")).toBe(true);
    expect(isTakenBy({ tagName: "SELECT" }, "j")).toBe(true);
    expect(isTakenBy({ tagName: "DIV", isContentEditable: true }, "j")).toBe(true);
  });

  it("is the page's on a box that was ticked a moment ago", () => {
    for (const key of ["j", "k", "x", "/", "Escape", "ArrowDown"]) {
      expect(isTakenBy(input("checkbox"), key)).toBe(false);
    }
    expect(isTakenBy({ tagName: "DIV" }, "ArrowDown")).toBe(false);
  });

  it("moves the choice among radio buttons, and only that", () => {
    expect(isTakenBy(input("radio"), "ArrowDown")).toBe(true);
    expect(isTakenBy(input("radio"), "j")).toBe(false);
  });
});
