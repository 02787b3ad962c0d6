"""Langfuse's SDK of today reports with its decorators and its OpenAI client; its keys and scores are taken."""

import programs
import pytest
from stub_answer import ANSWER
from weather import INSIDE, QUESTION, SERVED_CALL

# What becomes of a span is the same code in every tier.
pytestmark = pytest.mark.parametrize("server", ["one_process"], indirect=True)

AGENT = {
    **{"name": "weather-agent", "type": "agent", "input": QUESTION, "output": ANSWER, "total_cost": "0.0000231", "calls": 2},
    **INSIDE,
    "children": [
        {**SERVED_CALL, **INSIDE, "name": "OpenAI-generation", "agent": "weather-agent", "input": QUESTION, "output": "get_weather"},
        {**INSIDE, "name": "get_weather", "type": "tool", "input": "Paris", "output": "18"},
        {**SERVED_CALL, **INSIDE, "name": "answer", "input": "call_", "output": ANSWER},
    ],
}
FAILED = {"status": "error", "error": "the model failed", "input": "FAIL-500"}


def test_decorators_and_the_openai_client_make_a_tree(server, run_client):
    key = server.project_key()
    run_client(programs.frameworks("langfuse_agent.py"), **programs.langfuse_variables(server.url, key))
    stream = {**SERVED_CALL, "name": "OpenAI-generation", "input": "slowly", "output": ANSWER}
    failed_call = {"name": "OpenAI-generation", "type": "llm", "model": "gpt-4o-mini", **FAILED}
    failing = {"name": "failing-step", "type": "span", **FAILED, "children": [failed_call]}
    server.wait_for(key, [AGENT, stream, failing], None)


def test_the_keys_are_checked(server, run_client):
    key = server.project_key()
    check = programs.frameworks("langfuse_agent.py", "check")
    assert "the keys are valid: True" in run_client(check, **programs.langfuse_variables(server.url, key))
    refused = run_client(check, **programs.langfuse_variables(server.url, "sp_key_unknown"))
    assert "the keys are refused: UnauthorizedError" in refused


def test_a_score_is_feedback_on_its_run(server, run_client):
    key = server.project_key()
    run_client(programs.frameworks("langfuse_agent.py", "score"), **programs.langfuse_variables(server.url, key))

    def feedback():
        agents = [run for run in server.listed(key) if run["name"] == "weather-agent"]
        return agents and agents[0]["feedback"]

    found = server.wait(feedback, 30)
    assert found["rating"] == "positive" and "it rained" in found["comment"]
