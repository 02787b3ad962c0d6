/** Questions whose answers hold payloads: their numbers stay what they are. */

import { type Answer, ask } from "../api/client";
import { parseExact } from "./exact-json";

/** Awaits an answer that is read as text (`parseAs: "text"`): its data with exact numbers, or an [`ApiFault`]. */
export async function askExact<T>(answer: Promise<Answer<string>>): Promise<T> {
  return parseExact(await ask(answer)) as T;
}
