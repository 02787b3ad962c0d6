/** The platform this build is for. The build puts the browser's in its place; see build.mjs. */

export { platform } from "./platform/node.js";
