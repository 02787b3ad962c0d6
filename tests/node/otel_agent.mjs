// An agent traced with the OpenTelemetry SDK; the instrumentation of openai that the argument names traces its model
// calls. Started by the tests; endpoint, key, compression and service name come from the SDK's own variables.

import { context, SpanStatusCode, trace } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import * as module from "openai";

const provider = new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())] });
provider.register();

const conventions = {
  openinference: {
    from: "@arizeai/openinference-instrumentation-openai",
    agent: { "openinference.span.kind": "AGENT", "session.id": "thread-7", "user.id": "user-42", "tag.tags": ["v1"] },
    tool: { "openinference.span.kind": "TOOL", "tool.name": "get_weather", "input.value": "Paris", "output.value": "18" },
  },
  traceloop: {
    from: "@traceloop/instrumentation-openai",
    agent: {
      "traceloop.span.kind": "agent",
      "traceloop.entity.name": "weather-agent",
      "traceloop.association.properties.session_id": "thread-7",
      "traceloop.association.properties.user_id": "user-42",
    },
    tool: {
      "traceloop.span.kind": "tool",
      "traceloop.entity.name": "get_weather",
      "traceloop.entity.input": '"Paris"',
      "traceloop.entity.output": "18",
    },
  },
};
const { from, agent, tool } = conventions[process.argv[2]];
const { OpenAIInstrumentation } = await import(from);
const instrumentation = new OpenAIInstrumentation();
instrumentation.setTracerProvider(provider);
// The namespace of a module cannot be changed, what it names can.
instrumentation.manuallyInstrument(module.OpenAI);

const client = new module.OpenAI({ maxRetries: 0 });
const tracer = trace.getTracer("weather-app");

async function inSpan(name, attributes, work) {
  const span = tracer.startSpan(name, { attributes });
  try {
    return await context.with(trace.setSpan(context.active(), span), work);
  } catch (error) {
    span.recordException(error);
    span.setStatus({ code: SpanStatusCode.ERROR, message: error.message });
    throw error;
  } finally {
    span.end();
  }
}

function ask(content, options = {}) {
  return client.chat.completions.create({ model: "gpt-4o-mini", messages: [{ role: "user", content }], ...options });
}

await inSpan("weather-agent", agent, async () => {
  await ask("What is the weather in Paris?", { temperature: 0.2 });
  await inSpan("get_weather", tool, () => ask("The thermometer says 18."));
});
const stream = await ask("slowly", { stream: true, stream_options: { include_usage: true } });
for await (const piece of stream) if (!piece.id.startsWith("chatcmpl-")) throw new Error(piece.id);
await client.embeddings.create({ model: "text-embedding-3-small", input: "Paris", encoding_format: "float" });
await inSpan("failing-agent", {}, () => ask("FAIL-500")).catch(() => {});
await provider.shutdown();
