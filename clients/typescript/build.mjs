/** Builds the package: for Node and for browsers, each as ES modules and as CommonJS, with their types. */

import { execFileSync } from "node:child_process";
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import typescript from "typescript";

const require = createRequire(import.meta.url);
const root = fileURLToPath(new URL(".", import.meta.url));
const dist = join(root, "dist");

rmSync(dist, { recursive: true, force: true });
const esm = join(dist, "node/esm");
const cjs = join(dist, "node/cjs");
execFileSync(process.execPath, [require.resolve("typescript/bin/tsc"), "-p", "tsconfig.build.json", "--outDir", esm], {
  cwd: root,
  stdio: "inherit",
});
toCommonJs(esm, cjs);
for (const [folder, type] of [
  [esm, "module"],
  [cjs, "commonjs"],
]) {
  writeFileSync(join(folder, "package.json"), `${JSON.stringify({ type })}\n`);
  forBrowsers(folder, folder.replace(join(dist, "node"), join(dist, "browser")));
}

/** Types are the same for both; what was checked once is only written in other words. */
function toCommonJs(from, to) {
  cpSync(from, to, { recursive: true });
  const compilerOptions = { module: typescript.ModuleKind.CommonJS, target: typescript.ScriptTarget.ES2022 };
  for (const file of readdirSync(to, { recursive: true, encoding: "utf8" })) {
    if (!file.endsWith(".js")) continue;
    const path = join(to, file);
    writeFileSync(path, typescript.transpileModule(readFileSync(path, "utf8"), { compilerOptions }).outputText);
  }
}

/** The same files with the browser's platform in the place of Node's. */
function forBrowsers(node, browser) {
  cpSync(node, browser, { recursive: true });
  for (const file of ["platform.js", "platform.d.ts"]) {
    const path = join(browser, file);
    writeFileSync(path, readFileSync(path, "utf8").replaceAll("./platform/node.js", "./platform/browser.js"));
  }
  const folder = join(browser, "platform");
  for (const file of readdirSync(folder)) {
    if (["node.", "http-post.", "process-end."].some((start) => file.startsWith(start))) rmSync(join(folder, file));
  }
  // Where a module of Node is still imported, a page could not load.
  for (const file of readdirSync(browser, { recursive: true, encoding: "utf8" })) {
    const imported = /\b(from|import|require)\b[\s(]*["']node:/;
    if (/\.(js|d\.ts)$/.test(file) && imported.test(readFileSync(join(browser, file), "utf8"))) {
      throw new Error(`${file} of the browser's build needs Node`);
    }
  }
}
