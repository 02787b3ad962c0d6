import { defineConfig } from "vitest/config";

// Times are shown in the reader's zone: the tests have one, the same everywhere. Workers inherit it.
process.env.TZ = "UTC";

// Browsers read the text of numbers in JSON (`JSON.rawJSON`); Node does by itself from version 22 on.
const isOld = Number(process.versions.node.split(".")[0]) < 22;

export default defineConfig({
  test: {
    include: ["src/**/*.test.{ts,tsx}"],
    environment: "node",
    // Property tests take seconds where other suites use the same cores.
    testTimeout: 60_000,
    execArgv: isOld ? ["--harmony-json-parse-with-source"] : [],
  },
});
