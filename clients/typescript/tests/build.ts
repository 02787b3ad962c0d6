/** Builds the package once, for the tests that use it as an application does. */

import { execFileSync } from "node:child_process";
import { resolve } from "node:path";

export default function setup() {
  execFileSync(process.execPath, ["build.mjs"], { cwd: resolve(import.meta.dirname, ".."), stdio: "inherit" });
}
