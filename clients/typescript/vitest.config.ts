/** The tests: most against the sources, those that start processes against the build that `tests/build.ts` makes. */

import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["tests/**/*.test.ts"],
    environment: "node",
    globalSetup: "tests/build.ts",
    // Two cores, and other suites beside this one.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // An unhandled rejection anywhere fails the suite: the library must not leave one.
    dangerouslyIgnoreUnhandledErrors: false,
  },
});
