"""The real OpenTelemetry SDKs report with the instrumentations of openai that people use; whole traces become runs."""

import programs
import pytest
from stub_answer import ANSWER
from weather import QUESTION

SERVED = {"type": "llm", "model": "gpt-4o-mini-2024-07-18", "output": ANSWER}
COUNTED = {"tokens": [37, 11], "cost": "0.00001215"}
CACHED = {"tokens": [37, 11], "cached": 8, "cost": "0.00001155"}
USER = {"user": "user-42"}
THREAD = {"thread": "thread-7"}
INSIDE = {**USER, **THREAD, "tags": ["v1"]}
# An embedding completes nothing.
EMBEDDED = {"type": "llm", "model": "text-embedding-3-small", "tokens": [5, 0], "cost": "0.0000001"}
SERVICE = {"metadata": {"service": "weather-app"}}
FAILED = {"status": "error", "error": "the model failed"}


def traced(agent, tool, first, inner, others):
    """The trees of `otel_agent`: an agent asks a model and a tool, which asks a model too, and other calls stand alone.
    The agent alone names the session, and what is below it inherits that."""
    inner = {**THREAD, **inner, "input": "The thermometer says 18."}
    children = [{**THREAD, **first, "input": QUESTION}, {**THREAD, **tool, "children": [inner]}]
    return [{"name": "weather-agent", "type": "agent", **agent, "children": children}, *others]


def thread_of(trees):
    """The thread of the agent, which is the only turn and says nothing itself."""
    return {**USER, "id": "thread-7", "messages": [], "cost": trees[0]["total_cost"]}


def failing(*calls):
    return {"name": "failing-agent", "type": "span", **FAILED, "children": list(calls)}


def openinference():
    # Session, user and tags are on every span that the instrumentation makes inside of the block.
    call = {"name": "ChatCompletion", **SERVED, **CACHED}
    others = [
        {**call, "input": "slowly"},
        {"name": "CreateEmbeddings", **EMBEDDED, "input": "Paris", "output": "0.25"},
        failing({"name": "ChatCompletion", "type": "llm", "model": "gpt-4o-mini", **FAILED, "input": "FAIL-500"}),
    ]
    tool = {"name": "get_weather", "type": "tool", **USER, "input": "Paris", "output": "18"}
    inside = {**call, **INSIDE, "metadata": {"build": 7}}
    return traced({**INSIDE, **SERVICE, "total_cost": "0.0000231"}, tool, inside, inside, others)


def traceloop():
    call = {"name": "openai.chat", **SERVED, **CACHED}
    others = [
        {**call, "input": "slowly"},
        {"name": "openai.embeddings", **EMBEDDED, "input": "Paris"},
        failing({"name": "openai.chat", "type": "llm", "model": "gpt-4o-mini", **FAILED, "input": "FAIL-500"}),
    ]
    tool = {"name": "get_weather", "type": "tool", **USER, "input": "Paris", "output": "18"}
    agent = {**USER, **SERVICE, "thread": "thread-7", "total_cost": "0.0000231"}
    return traced(agent, tool, {**call, **USER}, {**call, **USER}, others)


def openai_v2():
    # What was said comes in log records, in a request of its own.
    call = {"name": "chat gpt-4o-mini", **SERVED, **COUNTED}
    others = [
        {**call, "input": "slowly"},
        {"name": "embeddings text-embedding-3-small", **EMBEDDED},
        failing({"name": "chat gpt-4o-mini", "type": "llm", "model": "gpt-4o-mini", **FAILED, "input": "FAIL-500"}),
    ]
    agent = {**USER, **SERVICE, "thread": "thread-7", "total_cost": "0.0000243"}
    return traced(agent, {"name": "get_weather", "type": "tool", **USER}, {**call, **USER}, {**call, **USER}, others)


PYTHON = {"openinference": openinference(), "traceloop": traceloop(), "openai-v2": openai_v2()}


@pytest.mark.parametrize("instrumentation", PYTHON)
def test_the_python_sdk(server, run_client, instrumentation):
    key = server.project_key()
    run_client(programs.current("otel_agent.py", instrumentation, "http"), **programs.otel_variables(server.url, key))
    server.wait_for(key, PYTHON[instrumentation], [thread_of(PYTHON[instrumentation])])


# The front of the tiers in these tests passes on HTTP/1.1, which gRPC is not.
@pytest.mark.parametrize("server", ["one_process"], indirect=True)
def test_the_python_sdk_over_grpc(server, run_client):
    key = server.project_key()
    run_client(programs.current("otel_agent.py", "openinference", "grpc"), **programs.otel_variables(server.url, key))
    server.wait_for(key, PYTHON["openinference"], [thread_of(PYTHON["openinference"])])


def openinference_js():
    call = {"name": "OpenAI Chat Completions", **SERVED, **CACHED}
    others = [
        # It tells neither the served model nor the usage of a stream, and no usage of embeddings.
        {"name": "OpenAI Chat Completions", "type": "llm", "model": "gpt-4o-mini", "input": "slowly", "output": ANSWER},
        {"name": "OpenAI Embeddings", "type": "llm", "model": "text-embedding-3-small", "input": "Paris"},
        failing(),
    ]
    tool = {"name": "get_weather", "type": "tool", **USER, "input": "Paris", "output": "18"}
    return traced({**INSIDE, "total_cost": "0.0000231"}, tool, {**call, **USER}, {**call, **USER}, others)


def traceloop_js():
    # It sees chats only, tells no cached tokens, and ends no span of a call that fails.
    call = {"name": "chat gpt-4o-mini", **SERVED, **COUNTED}
    stream = {"name": "chat gpt-4o-mini", **SERVED, "input": "slowly"}
    tool = {"name": "get_weather", "type": "tool", **USER, "input": "Paris", "output": "18"}
    agent = {**USER, "thread": "thread-7", "total_cost": "0.0000243"}
    return traced(agent, tool, {**call, **USER}, {**call, **USER}, [stream, failing()])


NODE = {"openinference": openinference_js(), "traceloop": traceloop_js()}


@pytest.mark.parametrize("instrumentation", NODE)
def test_the_node_sdk(server, run_client, instrumentation):
    key = server.project_key()
    run_client(programs.node("otel_agent.mjs", instrumentation), **programs.otel_variables(server.url, key))
    server.wait_for(key, NODE[instrumentation], [thread_of(NODE[instrumentation])])
