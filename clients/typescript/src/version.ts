/** The version of this library, and how it names itself to the server. */

/** As in `package.json`; a test compares them. */
export const VERSION = "0.1.0";

/** In the metadata of runs without a parent, and where Node sends in the header `User-Agent`. */
export const NAME = `spindle-client-typescript/${VERSION}`;

/** The key of that metadata; with it the server shows which versions an app reports with. */
export const CLIENT_KEY = "spindle_client";
