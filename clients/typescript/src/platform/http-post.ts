/** Sending from Node: unlike the sockets of `fetch`, these do not keep an idle process alive. */

import { Agent as PlainAgent, request as plainRequest } from "node:http";
import { Agent as SecureAgent, request as secureRequest } from "node:https";
import { NAME } from "../version.js";
import { ANSWER_CHARS, type Answer, type Post } from "./surface.js";

const plainAgent = new PlainAgent({ keepAlive: true });
const secureAgent = new SecureAgent({ keepAlive: true });

/** Sends a request; once more where the server had just closed the connection that was kept. */
export async function postByHttp(post: Post): Promise<Answer> {
  try {
    return await attempt(post);
  } catch (error) {
    if (error instanceof Stale) return attempt(post);
    throw error;
  }
}

/** A kept connection that turned out to be closed: nothing is known of the request, and its events have ids. */
class Stale extends Error {}

function attempt({ endpoint, headers, body, signal }: Post): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const isSecure = endpoint.startsWith("https:");
    const request = (isSecure ? secureRequest : plainRequest)(endpoint, {
      method: "POST",
      headers: { "User-Agent": NAME, ...headers, "Content-Length": Buffer.byteLength(body) },
      agent: isSecure ? secureAgent : plainAgent,
      signal,
    });
    request.on("socket", (socket) => socket.unref());
    request.on("error", (error: NodeJS.ErrnoException) => {
      const isStale = request.reusedSocket && (error.code === "ECONNRESET" || error.code === "EPIPE");
      reject(isStale ? new Stale() : error);
    });
    request.on("response", (response) => {
      let text = "";
      const answer = () => {
        const retryAfter = response.headers["retry-after"] ?? null;
        resolve({ status: response.statusCode ?? 0, retryAfter, text });
      };
      response.setEncoding("utf8");
      response.on("error", reject);
      response.on("data", (part: string) => {
        text += part;
        if (text.length < ANSWER_CHARS) return;
        answer();
        response.destroy();
      });
      response.on("end", answer);
    });
    request.end(body);
  });
}
