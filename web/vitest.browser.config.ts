import { defineConfig } from "vitest/config";

// The pages in a real browser, against the real binary: see browser/server.ts.
export default defineConfig({
  test: {
    include: ["browser/**/*.test.ts"],
    environment: "node",
    // Two cores: a browser and a server each want one.
    fileParallelism: false,
    testTimeout: 180_000,
    hookTimeout: 120_000,
  },
});
