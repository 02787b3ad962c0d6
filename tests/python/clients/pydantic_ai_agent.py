"""Agents as their author would write them with Pydantic AI, one with a structured result and one that streams.

The argument says who exports the spans: `logfire`, or `opentelemetry` with its SDK. Started by the tests with the pinned
client packages; endpoints and keys come from the environment.
"""

import sys

from pydantic import BaseModel
from pydantic_ai import Agent


class Weather(BaseModel):
    city: str
    celsius: int


def export_with_logfire():
    import logfire

    logfire.configure(send_to_logfire=False, console=False)
    logfire.instrument_pydantic_ai()
    return logfire.force_flush


def export_with_opentelemetry():
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    Agent.instrument_all()
    return provider.force_flush


flush = {"logfire": export_with_logfire, "opentelemetry": export_with_opentelemetry}[sys.argv[1]]()
weather = Agent("openai-chat:gpt-4o-mini", name="weather-agent", instructions="You know the weather.", output_type=Weather)
summary = Agent("anthropic:claude-sonnet-4-5", name="summary-agent")
slow = Agent("openai-responses:gpt-4o-mini", name="slow-agent")
failing = Agent("openai-chat:gpt-4o-mini", name="failing-agent", retries=0)


@weather.tool_plain
@summary.tool_plain
def get_weather(city: str) -> dict:
    """Weather of a city"""
    return {"city": city, "celsius": 18}


inside = {"conversation_id": "thread-7", "metadata": {"user_id": "user-42", "tags": ["v1"]}}
question = "What is the weather in Paris?"
assert weather.run_sync(question, **inside).output == Weather(city="Paris", celsius=18)
print(summary.run_sync(question, **inside).output)
for text in slow.run_stream_sync("slowly", **inside).stream_text(delta=True):
    print(text, end="")
try:
    failing.run_sync("FAIL-500 please", **inside)
except Exception as error:
    print("failed as meant to:", type(error).__name__)
flush()
