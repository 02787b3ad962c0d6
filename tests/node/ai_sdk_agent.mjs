// An agent as its author would write it with Vercel's AI SDK: a tool, a stream, an object, a vector, a failure, on models of
// OpenAI and Anthropic. Started by the tests; endpoints and keys come from the environment. The argument is the version and
// how it makes spans: `6`, `7` with its integration for OpenTelemetry, or `7-legacy` with the one for the former names.

import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { z } from "zod";

const provider = new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())] });
provider.register();

const served = { userId: "user-42", sessionId: "thread-7", tags: ["v1"] };
const versions = {
  6: async () => {
    const ai = await import("ai-6");
    const [{ openai }, { anthropic }] = await Promise.all([import("ai-6-openai"), import("ai-6-anthropic")]);
    const observed = (functionId) => ({ experimental_telemetry: { isEnabled: true, functionId, metadata: served } });
    const answerObject = async (options) => (await ai.generateObject(options)).object;
    return { ai, openai, anthropic, observed, answerObject };
  },
  7: () => seven(({ OpenTelemetry }) => new OpenTelemetry({ embedding: true, enrichSpan }), served),
  "7-legacy": () => seven(({ LegacyOpenTelemetry }) => new LegacyOpenTelemetry(), {}),
};

// Who is served stands on every span under the names that OpenTelemetry has for it.
function enrichSpan({ runtimeContext }) {
  const { userId, sessionId, tags } = runtimeContext;
  return { "user.id": userId, "session.id": sessionId, "tag.tags": tags };
}

async function seven(integration, runtimeContext) {
  const ai = await import("ai");
  const [{ openai }, { anthropic }] = await Promise.all([import("@ai-sdk/openai"), import("@ai-sdk/anthropic")]);
  ai.registerTelemetry(integration(await import("@ai-sdk/otel")));
  const includeRuntimeContext = { userId: true, sessionId: true, tags: true };
  const observed = (functionId) => ({ runtimeContext, telemetry: { functionId, includeRuntimeContext } });
  const answerObject = async ({ schema, ...options }) =>
    (await ai.generateText({ ...options, output: ai.Output.object({ schema }) })).output;
  return { ai, openai, anthropic, observed, answerObject };
}

const { ai, openai, anthropic, observed, answerObject } = await versions[process.argv[2]]();
const { embed, generateText, stepCountIs, streamText, tool } = ai;
const options = (functionId) => ({ maxRetries: 0, ...observed(functionId) });
const tools = {
  get_weather: tool({
    description: "Weather of a city",
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => ({ city, celsius: 18 }),
  }),
};
const prompt = "What is the weather in Paris?";

const { text } = await generateText({
  ...options("weather-agent"),
  model: openai("gpt-4o-mini"),
  prompt,
  tools,
  stopWhen: stepCountIs(5),
});
const { text: summary } = await generateText({ ...options("summary"), model: anthropic("claude-sonnet-4-5"), prompt });
const stream = streamText({ ...options("slow"), model: openai.chat("gpt-4o-mini"), prompt: "slowly" });
let streamed = "";
for await (const piece of stream.textStream) streamed += piece;
const schema = z.object({ city: z.string(), celsius: z.number() });
const object = await answerObject({ ...options("object"), model: openai("gpt-4o-mini"), prompt, schema });
await embed({ ...options("search"), model: openai.embedding("text-embedding-3-small"), value: "Paris" });
await generateText({ ...options("failing"), model: openai("gpt-4o-mini"), prompt: "FAIL-500" }).catch(() => {});
console.log(text, summary, streamed, object);
await provider.shutdown();
