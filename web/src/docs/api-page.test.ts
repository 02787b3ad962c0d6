import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { apiPage } from "./api-page";
import type { Document } from "./document";

const DOCUMENT: Document = JSON.parse(readFileSync(new URL("../../openapi.json", import.meta.url), "utf8"));
const escaped = (text: string) => text.replace(/</g, "&lt;").replace(/>/g, "&gt;");

describe("the page of the API", () => {
  const page = apiPage(DOCUMENT);

  it("names every path, parameter and schema, and leads to it", () => {
    for (const path of Object.keys(DOCUMENT.paths)) expect(page).toContain(escaped(path));
    for (const name of Object.keys(DOCUMENT.components.schemas)) expect(page).toContain(`id="schema-${name}"`);
    expect(page).toContain("min_latency_s");
    expect(page).toContain("metadata.&lt;key&gt;");
    const ids = new Set([...page.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id));
    for (const [, target] of page.matchAll(/href="#([^"]+)"/g)) expect(ids).toContain(target);
  });

  it("runs and loads nothing", () => {
    expect(page).not.toMatch(/<script|<link|<img|style=|https?:/);
  });

  it("never takes text for markup", () => {
    const document = { info: { title: "<b>", description: "a <i> `c&d`" }, paths: {}, components: { schemas: {} } };
    expect(apiPage(document)).toContain("<h1>&lt;b&gt;: API</h1><p>a &lt;i&gt; <code>c&amp;d</code></p>");
  });
});
