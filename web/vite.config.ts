import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// While developing: a running Spindle that answers everything that is not a page.
const server = process.env.SPINDLE_URL ?? "http://127.0.0.1:7070";

export default defineConfig({
  plugins: [react()],
  build: {
    target: "es2022",
    // The content security policy allows no `data:` address for scripts and styles.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  server: {
    host: "127.0.0.1",
    proxy: Object.fromEntries(["/api", "/rtm", "/health", "/metrics", "/docs"].map((path) => [path, server])),
  },
});
