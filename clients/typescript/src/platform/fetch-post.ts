/** Sending with `fetch`: in browsers, and wherever an application gives its own. */

import { ANSWER_CHARS, type Answer, type Post } from "./surface.js";

/** Sends a request. The body of the answer has to be read, or its connection is not used again. */
export async function postByFetch(fetch: typeof globalThis.fetch, post: Post): Promise<Answer> {
  const { headers, body, signal, keepalive } = post;
  const response = await fetch(post.endpoint, {
    method: "POST",
    headers,
    body: body as BodyInit,
    signal,
    // Workers reject what only pages have.
    ...(keepalive ? { keepalive } : {}),
    // A redirected POST becomes a GET, and the key is not for other hosts.
    redirect: "manual",
  });
  return { status: response.status, retryAfter: response.headers.get("retry-after"), text: await textOf(response) };
}

async function textOf(response: Response): Promise<string> {
  const reader = response.body?.getReader();
  if (!reader) return "";
  const decoder = new TextDecoder();
  let text = "";
  while (text.length < ANSWER_CHARS) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    text += decoder.decode(value, { stream: true });
  }
  await reader.cancel().catch(() => {});
  return text;
}
