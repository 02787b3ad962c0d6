/** How to report the first model call, as programs one can copy and run. Pure. */

/** A program, and what prepares the shell for it. */
export type Snippet = { id: string; label: string; setup: string; program: string };

/** Stands for a key that is not known here. */
const NO_KEY = "sp_key_…";

/** The programs for a Spindle at this address. The key is in the environment, so that no program contains it. */
export function snippets(origin: string, key = NO_KEY): Snippet[] {
  const own = `export SPINDLE_URL=${origin}\nexport SPINDLE_API_KEY=${key}`;
  return [
    {
      id: "python",
      label: "Python",
      setup: `pip install ./clients/python    # in a checkout of Spindle\n${own}`,
      program: PYTHON,
    },
    {
      id: "typescript",
      label: "TypeScript",
      setup: `(cd clients/typescript && npm ci && npm pack)    # in a checkout of Spindle
npm install ./clients/typescript/spindle-client-*.tgz
${own}`,
      program: TYPESCRIPT,
    },
    {
      id: "opentelemetry",
      label: "OpenTelemetry",
      setup: `pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http
export OTEL_EXPORTER_OTLP_ENDPOINT=${origin}
export OTEL_EXPORTER_OTLP_HEADERS="Authorization=Bearer%20${key}"`,
      program: OPENTELEMETRY,
    },
    { id: "curl", label: "curl", setup: own, program: CURL },
  ];
}

const PYTHON = `import spindle_client as spindle

question = [{"role": "user", "content": "Say hello"}]
with spindle.llm("hello", model="gpt-4o-mini", input=question) as call:
    call.output = {"role": "assistant", "content": "Hello!"}  # your model call goes here
    call.usage(prompt_tokens=9, completion_tokens=3)
`;

const TYPESCRIPT = `import { llm } from "@spindle/client";

const hello = llm(
  "hello",
  async (messages) => ({ role: "assistant", content: "Hello!" }), // your model call goes here
  {
    model: "gpt-4o-mini",
    input: (messages) => messages,
    usage: () => ({ promptTokens: 9, completionTokens: 3 }),
  },
);
await hello([{ role: "user", content: "Say hello" }]);
`;

const OPENTELEMETRY = `import json

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor


def message(role, text):
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
with provider.get_tracer("hello").start_as_current_span("chat gpt-4o-mini") as span:
    # An instrumentation of your model's library sets these.
    span.set_attribute("gen_ai.operation.name", "chat")
    span.set_attribute("gen_ai.request.model", "gpt-4o-mini")
    span.set_attribute("gen_ai.input.messages", message("user", "Say hello"))
    span.set_attribute("gen_ai.output.messages", message("assistant", "Hello!"))
    span.set_attribute("gen_ai.usage.input_tokens", 9)
    span.set_attribute("gen_ai.usage.output_tokens", 3)
provider.shutdown()
`;

const CURL = `curl $SPINDLE_URL/api/report \\
  -H "Authorization: Bearer $SPINDLE_API_KEY" \\
  -H "Content-Type: application/json" \\
  -d '{"events": [{
    "type": "llm",
    "name": "hello",
    "run_id": "hello-'$(date +%s)'",
    "timestamp": "'$(date -u +%Y-%m-%dT%H:%M:%SZ)'",
    "model": "gpt-4o-mini",
    "input": [{"role": "user", "content": "Say hello"}],
    "output": {"role": "assistant", "content": "Hello!"},
    "prompt_tokens": 9,
    "completion_tokens": 3,
    "duration_ms": 420
  }]}'
`;
