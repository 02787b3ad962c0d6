"""Vercel's AI SDK of today reports, version 6 with its own spans and version 7 with either of its integrations."""

import programs
import pytest
import stub_anthropic
from stub_answer import ANSWER
from weather import INSIDE, QUESTION, SERVED_CALL

VECTORS = '"dimensions": 2'
EMBEDDING = {"type": "llm", "model": "text-embedding-3-small", "tokens": [5, 0], "cost": "0.0000001"}
FAILED = {"status": "error", "error": "the model failed"}
CLAUDE = {
    **{"model": "claude-sonnet-4-5", "cost": "0.006"},
    **{"tokens": [stub_anthropic.PROMPT_TOKENS, stub_anthropic.OUTPUT_TOKENS], "cached": stub_anthropic.CACHE_READ_TOKENS},
}


def former(inside, answers_object, *, is_tool_below_call):
    """The spans of version 6, and of the integration of version 7 that keeps their names."""

    def run(name, kind, asked, answered, *children, **others):
        return {"name": name, "type": kind, **inside, "input": asked, "output": answered, "children": [*children], **others}

    def call(of, asked, answered, *children, **others):
        return run(f"{of}.doGenerate", "llm", asked, answered, *children, **{**SERVED_CALL, **others})

    def text(agent, asked, answered, *children, **others):
        return run("ai.generateText", "agent", asked, answered, *children, **{"agent": agent, "calls": 1, **others})

    tool = run("get_weather", "tool", "Paris", "18", agent="weather-agent")
    below, beside = ([tool], []) if is_tool_below_call else ([], [tool])
    asks = call("ai.generateText", QUESTION, "get_weather", *below)
    answers = call("ai.generateText", "tool_call_id", ANSWER)
    stream = run("ai.streamText.doStream", "llm", "slowly", ANSWER, **SERVED_CALL)
    name, kind, call_for_object = answers_object
    vectors = run("ai.embed.doEmbed", "llm", "Paris", VECTORS, **EMBEDDING)
    failed_call = run("ai.generateText.doGenerate", "llm", "FAIL-500", None, model="gpt-4o-mini", **FAILED)
    return [
        text("weather-agent", QUESTION, ANSWER, asks, *beside, answers, calls=2, total_cost="0.0000231"),
        text("summary", QUESTION, ANSWER, call("ai.generateText", QUESTION, ANSWER, **CLAUDE)),
        run("ai.streamText", "agent", "slowly", ANSWER, stream, agent="slow", calls=1),
        run(name, kind, QUESTION, "celsius", call(name, QUESTION, "celsius", **call_for_object), agent="object", calls=1),
        run("ai.embed", "chain", "Paris", VECTORS, vectors, agent="search", calls=1),
        text("failing", "FAIL-500", None, failed_call, **FAILED),
    ]


def conventions():
    """The spans of version 7: OpenTelemetry's conventions, with a span for each step of an agent."""

    def agent(name, asked, answered, *steps, **others):
        named = {"agent": name, **INSIDE, **others}
        steps = [{"name": f"step {place}", "type": "chain", **named, "children": step} for place, step in enumerate(steps, 1)]
        return {"name": name, "type": "agent", "calls": len(steps), **named, "input": asked, "output": answered, "children": steps}

    def call(asked, answered, **others):
        return {**SERVED_CALL, **INSIDE, "name": "chat gpt-4o-mini", "input": asked, "output": answered, **others}

    tool = {"name": "get_weather", "type": "tool", "agent": "weather-agent", **INSIDE, "input": "Paris", "output": "18"}
    claude = call(QUESTION, ANSWER, name="chat claude-sonnet-4-5", **CLAUDE)
    failed_call = {"name": "chat gpt-4o-mini", "type": "llm", "model": "gpt-4o-mini", **INSIDE, "input": "FAIL-500", **FAILED}
    vectors = {"name": "embeddings text-embedding-3-small", **INSIDE, "input": "Paris", "output": VECTORS}
    return [
        agent("weather-agent", QUESTION, ANSWER, [call(QUESTION, "get_weather"), tool], [call("tool_call_id", ANSWER)]),
        agent("summary", QUESTION, ANSWER, [claude]),
        agent("slow", "slowly", ANSWER, [call("slowly", ANSWER)]),
        agent("object", QUESTION, "celsius", [call(QUESTION, "celsius")]),
        # One call in two spans, of which the inner one has its usage.
        {**vectors, "type": "llm", "model": EMBEDDING["model"], "total_cost": EMBEDDING["cost"], "children": [{**vectors, **EMBEDDING}]},
        agent("failing", "FAIL-500", None, [failed_call], **FAILED),
    ]


VERSIONS = {
    # `generateObject` tells no cached tokens.
    "6": former(INSIDE, ("ai.generateObject", "chain", {"cached": None, "cost": "0.00001215"}), is_tool_below_call=False),
    "7": conventions(),
    # It names neither user, session nor tags: calls have no metadata any more in version 7.
    "7-legacy": former({}, ("ai.generateText", "agent", {}), is_tool_below_call=True),
}


# What becomes of a span is the same code in every tier.
@pytest.mark.parametrize("server", ["one_process"], indirect=True)
@pytest.mark.parametrize("version", VERSIONS)
def test_agents_streams_objects_and_vectors(server, run_client, version):
    key = server.project_key()
    run_client(programs.node("ai_sdk_agent.mjs", version), **programs.otel_variables(server.url, key))
    runs, _ = server.wait_for(key, VERSIONS[version], None)
    # What was asked with the tool's result has the messages of a conversation, in OpenAI's shape.
    [second] = [run for run in runs if run["type"] == "llm" and run["input"] and len(run["input"]) == 3]
    assert [message["role"] for message in second["input"]] == ["user", "assistant", "tool"]
    [call] = second["input"][1]["tool_calls"]
    assert call["function"] == {"name": "get_weather", "arguments": call["function"]["arguments"]}
    assert call["id"] == second["input"][2]["tool_call_id"]
