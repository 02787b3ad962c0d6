/**
 * A Worker at the edge whose runs are seen in Spindle: it answers a question with a model, at once or as a stream.
 *
 * It needs nothing of Node. Settings and secrets come with each request, so each request makes its own client.
 */

import { Spindle } from "@spindle/client";
import { observeOpenAI } from "@spindle/client/openai";
import OpenAI from "openai";

/** The variables and secrets of the Worker. */
export interface Env {
  SPINDLE_URL: string;
  SPINDLE_API_KEY: string;
  OPENAI_API_KEY: string;
  OPENAI_BASE_URL?: string;
}

/** The part of the runtime's context that is used here. */
export interface Context {
  waitUntil(promise: Promise<unknown>): void;
}

const MODEL = "gpt-4o-mini";

export default {
  async fetch(request: Request, env: Env, context: Context): Promise<Response> {
    const spindle = new Spindle({ url: env.SPINDLE_URL, apiKey: env.SPINDLE_API_KEY, appId: "worker" });
    const openai = observeOpenAI(new OpenAI({ apiKey: env.OPENAI_API_KEY, baseURL: env.OPENAI_BASE_URL }), { spindle });
    const lookUp = spindle.tool("look_up", async (question: string) => `${question} Answer briefly.`);

    const url = new URL(request.url);
    const question = url.searchParams.get("q") ?? "What is a spindle?";
    const run = spindle.start("agent", { name: "worker-agent", input: question });
    // Sent after the response, within the time that the runtime gives; runs of a stream end only then.
    context.waitUntil(spindle.flushAfterRuns());
    try {
      // Without `AsyncLocalStorage` the current run is known until the first `await`: `within` gives the parent.
      const prompt = await run.within(() => lookUp(question));
      const messages = [{ role: "user" as const, content: prompt }];
      if (url.pathname === "/stream") {
        const stream = await run.within(() =>
          openai.chat.completions.create({
            model: MODEL,
            messages,
            stream: true,
            stream_options: { include_usage: true },
          }),
        );
        run.end();
        return new Response(stream.toReadableStream(), { headers: { "content-type": "application/x-ndjson" } });
      }
      const reply = await run.within(() => openai.chat.completions.create({ model: MODEL, messages }));
      const answer = reply.choices[0]?.message.content ?? "";
      run.end(answer);
      return Response.json({ answer });
    } catch (error) {
      run.fail(error);
      return Response.json({ error: "the model did not answer" }, { status: 502 });
    }
  },
};
