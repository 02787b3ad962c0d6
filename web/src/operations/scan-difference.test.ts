import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { differences } from "./scan-difference";

const scan = {
  scanTimestamp: "2026-11-21T10:00:00.000Z",
  totalServices: 2,
  services: {
    cms: { status: "healthy", capabilities: ["a", "b"], lastHealthCheck: "1" },
    memory: { status: "unknown", lastHealthCheck: "1" },
  },
  summary: { scanDuration: "1s" },
};

describe("two scans", () => {
  it("differ by what is set and found, not by when they were made", () => {
    const later = structuredClone(scan);
    later.scanTimestamp = "2026-11-21T11:00:00.000Z";
    later.services.cms.lastHealthCheck = "2";
    later.summary.scanDuration = "2s";
    expect(differences(scan, later)).toEqual([]);
    later.services.cms.status = "unhealthy";
    later.services.cms.capabilities = ["a"];
    expect(differences(scan, later)).toEqual([
      { where: "services · cms · status", before: "healthy", after: "unhealthy" },
      { where: "services · cms · capabilities", before: "a, b", after: "a" },
    ]);
  });

  it("say which services came and went, whatever they are called", () => {
    const later = { ...scan, services: { cms: scan.services.cms, summary: { status: "healthy" } } };
    expect(differences(scan, later)).toEqual([
      { where: "services · summary · status", before: undefined, after: "healthy" },
      { where: "services · memory · status", before: "unknown", after: undefined },
    ]);
  });

  it("do not differ from themselves", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(differences(value, structuredClone(value))).toEqual([]);
      }),
    );
  });
});
