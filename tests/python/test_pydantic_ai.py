"""Pydantic AI of today reports agents, through Logfire and through OpenTelemetry's own SDK."""

import programs
import pytest
import stub_anthropic
from expectation import ANY
from stub_answer import ANSWER
from weather import QUESTION, SERVED_CALL

# The user is on the agent's span and counts for everything below; tags are the agent's own.
IN_AGENT = {"user": "user-42", "thread": "thread-7"}
AGENT = {"type": "agent", **IN_AGENT, "tags": ["v1"], "input": QUESTION}
CALL = {**SERVED_CALL, "name": "chat gpt-4o-mini", **IN_AGENT}
TOOL = {"name": "get_weather", "type": "tool", **IN_AGENT, "input": "Paris", "output": "18"}
FAILED = {"status": "error", "error": "the model failed"}


def claude(**said):
    """One call, which Anthropic's SDK reports too: the inner run counts it, and has the messages of the outer one."""
    tokens = {"tokens": [stub_anthropic.PROMPT_TOKENS, stub_anthropic.OUTPUT_TOKENS], "cached": stub_anthropic.CACHE_READ_TOKENS}
    call = {"type": "llm", "model": "claude-sonnet-4-5", **IN_AGENT, **tokens, "calls": 1}
    # Its span names no conversation where OpenTelemetry's SDK exports it.
    inner = {**call, "name": "anthropic.messages.create", "cost": "0.006", "thread": ANY, **said}
    return {**call, "name": "chat claude-sonnet-4-5", **said, "children": [inner]}


def trees():
    weather = {
        **{**AGENT, "name": "weather-agent", "output": '{"city": "Paris", "celsius": 18}', "total_cost": "0.0000231", "calls": 2},
        "children": [
            {**CALL, "input": QUESTION, "output": "get_weather"},
            TOOL,
            {**CALL, "input": "call_", "output": "final_result"},
        ],
    }
    summary = {
        **{**AGENT, "name": "summary-agent", "output": ANSWER, "calls": 2},
        "children": [claude(input=QUESTION, output="get_weather"), TOOL, claude(input="toolu_", output=ANSWER)],
    }
    slow = {
        **{**AGENT, "name": "slow-agent", "input": "slowly", "output": ANSWER, "calls": 1},
        "children": [{**CALL, "input": "slowly", "output": ANSWER}],
    }
    # A call that fails tells nothing of its messages.
    failed_call = {"name": "chat gpt-4o-mini", "type": "llm", "model": "gpt-4o-mini", **IN_AGENT, **FAILED}
    failing = {**AGENT, "name": "failing-agent", "input": "FAIL-500", **FAILED, "children": [failed_call]}
    return [weather, summary, slow, failing]


# What becomes of a span is the same code in every tier.
@pytest.mark.parametrize("server", ["one_process"], indirect=True)
@pytest.mark.parametrize("exported_by", ["logfire", "opentelemetry"])
def test_agents_with_a_tool_a_result_a_stream_and_a_failure(server, run_client, exported_by):
    key = server.project_key()
    run_client(programs.frameworks("pydantic_ai_agent.py", exported_by), **programs.otel_variables(server.url, key))
    server.wait_for(key, trees(), None)
