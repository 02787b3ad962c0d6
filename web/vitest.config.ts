import { defineConfig } from "vitest/config";

// Times are shown in the reader's zone: the tests have one, the same everywhere. Workers inherit it.
process.env.TZ = "UTC";

export default defineConfig({
  test: { include: ["src/**/*.test.{ts,tsx}"], environment: "node" },
});
