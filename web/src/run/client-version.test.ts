import { describe, expect, it } from "vitest";
import { clientVersion } from "./client-version";

const run = (said: unknown) => ({ run_id: "r", app_id: "my app", metadata: { spindle_client: said } });

describe("the client library of a run", () => {
  it("is what its metadata names, and leads to the app's runs of this version", () => {
    expect(clientVersion(run("spindle-client-python/0.1.0"))).toEqual({
      name: "spindle-client-python",
      version: "0.1.0",
      link: "/runs?app_id=my+app&metadata.spindle_client=spindle-client-python%2F0.1.0",
    });
    expect(clientVersion({ ...run("a/1"), app_id: null, project_id: "p" })?.link).toBe(
      "/runs?project_id=p&metadata.spindle_client=a%2F1",
    );
  });

  it("is unknown where the metadata has something else", () => {
    for (const said of [undefined, null, 7, {}, "", "a", "/1", "a/", "a b/1", "a/1/2", `a/${"1".repeat(99)}`]) {
      expect(clientVersion(run(said))).toBeUndefined();
    }
    expect(clientVersion({ run_id: "r", metadata: {} })).toBeUndefined();
  });
});
