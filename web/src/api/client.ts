/**
 * The typed client, made from the server's own OpenAPI document (`openapi.json`, `npm run types`).
 *
 * The session is a cookie that scripts cannot read: nothing here knows a secret.
 */

import createClient from "openapi-fetch";
import type { components, paths } from "./schema";

/** Shapes of the API by name. */
export type Shapes = components["schemas"];

/** An answer that is not 2xx, or none at all (`status` 0). */
export class ApiFault extends Error {
  override name = "ApiFault";
  constructor(
    /** HTTP status, 0 where the server could not be reached. */
    readonly status: number,
    /** Stable code, such as `invalid_parameter`. */
    readonly code: string,
    /** For a person. */
    message: string,
    /** Particulars, where there are any. */
    readonly details?: unknown,
  ) {
    super(message);
  }

  /** Whether asking again may help: the server is away, busy or failed. */
  get isPassing(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

/** Writes lists as `name[]=a&name[]=b`: a comma is then part of a value. */
export function queryText(query: Record<string, unknown>): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null || value === "") continue;
    if (Array.isArray(value)) for (const one of value) params.append(`${name}[]`, String(one));
    else params.append(name, String(value));
  }
  return params.toString();
}

export const api = createClient<paths>({ baseUrl: "/", querySerializer: queryText });

/** What the client answers. */
export type Answer<T> = { data?: T; error?: unknown; response: Response };

/** Awaits an answer of the client: its data, or an [`ApiFault`]. */
export async function ask<T>(answer: Promise<Answer<T>>): Promise<T> {
  let got: Answer<T>;
  try {
    got = await answer;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiFault(0, "unreachable", "The server does not answer.");
  }
  if (got.response.ok) return got.data as T;
  throw faultOf(got.response.status, got.error);
}

/** The fault in a body; cache clear has a shape of its own. */
export function faultOf(status: number, body: unknown): ApiFault {
  const fields = (typeof body === "object" && body !== null ? body : {}) as Record<string, unknown>;
  const code = typeof fields.error === "string" ? fields.error : "unknown";
  const texts = [fields.message, fields.error].filter((text) => typeof text === "string" && text !== "");
  return new ApiFault(status, code, String(texts[0] ?? `The server answered ${status}.`), fields.details);
}
