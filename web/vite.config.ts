import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";
import document from "./openapi.json" with { type: "json" };
import { apiPage } from "./src/docs/api-page";

// While developing: a running Spindle that answers everything that is not a page.
const server = process.env.SPINDLE_URL ?? "http://127.0.0.1:7070";

/** Puts the page of the API into `docs.html`. */
const docs: Plugin = {
  name: "docs",
  transformIndexHtml: (html) => html.replace("<!--api-->", () => apiPage(document)),
};

export default defineConfig({
  plugins: [react(), docs],
  build: {
    rollupOptions: { input: ["index.html", "docs.html"] },
    target: "es2022",
    // The content security policy allows no `data:` address for scripts and styles.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  server: {
    host: "127.0.0.1",
    proxy: Object.fromEntries(["/api", "/rtm", "/health", "/metrics"].map((path) => [path, server])),
  },
});
