"""Strands Agents of today reports an agent on a model of Amazon Bedrock."""

import programs
import pytest
from stub_answer import ANSWER
from weather import INSIDE, QUESTION

CYCLE = {"name": "execute_event_loop_cycle", "type": "chain", **INSIDE, "input": QUESTION}
CALL = {
    **{"name": "chat", "type": "llm", "model": "amazon.nova-lite-v1:0", "tokens": [37, 11], "cost": "0.00000486"},
    **{"agent": "weather-agent", **INSIDE, "input": QUESTION},
}
SYSTEM = {"role": "system", "content": "You know the weather."}


# What becomes of a span is the same code in every tier.
@pytest.mark.parametrize("server", ["one_process"], indirect=True)
def test_an_agent_with_a_tool(server, run_client):
    key = server.project_key()
    run_client(programs.frameworks("strands_agent.py"), **programs.otel_variables(server.url, key))
    tool = {"name": "get_weather", "type": "tool", **INSIDE, "input": "Paris", "output": "18"}
    agent = {
        **{"name": "weather-agent", "type": "agent", **INSIDE, "input": QUESTION, "output": ANSWER},
        **{"total_cost": "0.00000972", "calls": 2},
        "children": [
            {**CYCLE, "output": "get_weather", "children": [{**CALL, "output": "get_weather"}, tool]},
            {**CYCLE, "children": [{**CALL, "output": ANSWER}]},
        ],
    }
    runs, _ = server.wait_for(key, [agent], None)
    # Blocks of Bedrock are messages, and a tool has its arguments and its result.
    [second] = [run for run in runs if run["type"] == "llm" and len(run["input"]) > 2]
    assert [message["role"] for message in second["input"]] == ["system", "user", "assistant", "tool"]
    assert second["input"][0] == SYSTEM
    [call] = second["input"][2]["tool_calls"]
    assert call["function"]["name"] == "get_weather" and call["id"] == second["input"][3]["tool_call_id"]
    [found] = [run for run in runs if run["type"] == "tool"]
    assert (found["input"], found["output"]) == ({"city": "Paris"}, {"city": "Paris", "celsius": 18})
