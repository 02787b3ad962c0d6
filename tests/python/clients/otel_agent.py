"""An agent traced with the OpenTelemetry SDK; one of the three instrumentations of openai, named by the first argument,
traces its model calls, and the second says whether the spans go over `http` or `grpc`.

Started by the tests with the pinned client packages; endpoint, key and service name come from the SDK's own variables.
"""

import contextlib
import importlib
import sys

from openai import OpenAI
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

QUESTION = [{"role": "user", "content": "What is the weather in Paris?"}]
FOUND = [{"role": "user", "content": "The thermometer says 18."}]


def openinference(provider):
    """The attributes of Arize's convention; session, user and tags are set on all spans inside of a block."""
    from openinference.instrumentation import using_attributes
    from openinference.instrumentation.openai import OpenAIInstrumentor

    OpenAIInstrumentor().instrument(tracer_provider=provider)
    agent = {"openinference.span.kind": "AGENT", "session.id": "thread-7", "user.id": "user-42", "tag.tags": ["v1"]}
    tool = {"openinference.span.kind": "TOOL", "tool.name": "get_weather", "input.value": "Paris", "output.value": "18"}
    inside = using_attributes(session_id="thread-7", user_id="user-42", tags=["v1"], metadata={"build": 7})
    return agent, tool, inside


def traceloop(provider):
    """The attributes of traceloop's SDK, as its decorators would set them."""
    from opentelemetry.instrumentation.openai import OpenAIInstrumentor

    OpenAIInstrumentor().instrument(tracer_provider=provider)
    association = {f"traceloop.association.properties.{key}": value for key, value in [("session_id", "thread-7"), ("user_id", "user-42")]}
    agent = {"traceloop.span.kind": "agent", "traceloop.entity.name": "weather-agent", **association}
    tool = {"traceloop.span.kind": "tool", "traceloop.entity.name": "get_weather"}
    tool |= {"traceloop.entity.input": '"Paris"', "traceloop.entity.output": "18"}
    return agent, tool, contextlib.nullcontext()


def openai_v2(provider):
    """OpenTelemetry's own convention, whose messages travel as log records."""
    from opentelemetry._logs import set_logger_provider
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor

    logs = LoggerProvider()
    logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
    set_logger_provider(logs)
    OpenAIInstrumentor().instrument(tracer_provider=provider, logger_provider=logs)
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "weather-agent"}
    agent |= {"gen_ai.conversation.id": "thread-7", "user.id": "user-42"}
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_weather"}
    return agent, tool, contextlib.nullcontext()


def work(tracer, agent, tool, inside):
    """An agent that asks a model, then a tool that asks one; calls that stream, embed and fail."""
    client = OpenAI(max_retries=0)
    with tracer.start_as_current_span("weather-agent", attributes=agent), inside:
        client.chat.completions.create(model="gpt-4o-mini", messages=QUESTION, temperature=0.2)
        with tracer.start_as_current_span("get_weather", attributes=tool):
            client.chat.completions.create(model="gpt-4o-mini", messages=FOUND)
    for piece in client.chat.completions.create(
        model="gpt-4o-mini",
        messages=[{"role": "user", "content": "slowly"}],
        stream=True,
        stream_options={"include_usage": True},
    ):
        assert piece.id.startswith("chatcmpl-")
    client.embeddings.create(model="text-embedding-3-small", input="Paris")
    with contextlib.suppress(Exception), tracer.start_as_current_span("failing-agent"):
        client.chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": "FAIL-500"}])


exporter = importlib.import_module(f"opentelemetry.exporter.otlp.proto.{sys.argv[2]}.trace_exporter")
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(exporter.OTLPSpanExporter()))
trace.set_tracer_provider(provider)
convention = {"openinference": openinference, "traceloop": traceloop, "openai-v2": openai_v2}[sys.argv[1]]
work(trace.get_tracer("weather-app"), *convention(provider))
