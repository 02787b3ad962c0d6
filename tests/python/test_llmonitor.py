"""The real `llmonitor` packages, and the early `lunary` that is the same, report; the runs are what their author would expect."""

import programs
import pytest
from stub_answer import ANSWER
from weather import ADA, CALL, FAILED, FAILED_CALL, MONITORED, QUESTION, THREAD

DECORATED = [
    {
        **{"name": "weather-agent", "type": "agent", "tags": ["v1"], "input": QUESTION, "output": ANSWER},
        **ADA,
        "total_cost": "0.0000243",
        "children": [
            {**CALL, **ADA, "input": QUESTION, "output": "get_weather"},
            {"name": "get_weather", "type": "tool", **ADA, "input": "Paris", "output": "18"},
            {**CALL, **ADA, "input": "tool said", "output": ANSWER},
        ],
    },
    {
        **{"name": "failing-agent", "type": "agent", **FAILED},
        "children": [
            {"name": "lookup", "type": "tool", "status": "error", "input": "Atlantis", "error": "unknown city: Atlantis"},
            FAILED_CALL,
        ],
    },
]


@pytest.mark.parametrize("package", ["llmonitor", "lunary"])
def test_decorators_with_the_key_in_the_address(server, run_client, package):
    key = server.project_key()
    address = programs.with_key(server.url, key)
    run_client(programs.older("decorated_agent.py", package), LLMONITOR_API_URL=address, LLMONITOR_APP_ID="decorated")
    server.wait_for(key, DECORATED)


def test_decorators_of_an_app_that_needs_no_key(server, run_client):
    key = server.project_key(keyless_app="old-client")
    run_client(programs.older("decorated_agent.py", "llmonitor"), LLMONITOR_API_URL=server.url, LLMONITOR_APP_ID="old-client")
    server.wait_for(key, DECORATED)
    # (T1) the project of the first key never sees them.
    assert server.get("/api/run/", app_id="old-client").json()["data"] == []


def test_the_langchain_callback_handler(server, run_client):
    key = server.project_key()
    address = programs.with_key(server.url, key)
    output = run_client(programs.older("langchain_agent.py"), LLMONITOR_API_URL=address, LLMONITOR_APP_ID="langchain")
    assert ANSWER in output
    agent = {
        **{"name": "langchain-agent", "type": "agent", "tags": ["openai-functions"], "input": QUESTION, "output": ANSWER},
        **ADA,
        "children": [
            {**CALL, **ADA, "input": QUESTION, "output": "get_weather"},
            {"name": "get_weather", "type": "tool", **ADA, "input": "Paris", "output": "light rain"},
            {**CALL, **ADA, "input": "18 degrees", "output": ANSWER},
        ],
    }
    server.wait_for(key, [agent])


def test_the_package_from_npm_of_an_app_that_needs_no_key(server, run_client):
    key = server.project_key(keyless_app="old-javascript")
    run_client(
        programs.node("monitored_agent.mjs", "llmonitor"), LLMONITOR_API_URL=server.url, LLMONITOR_APP_ID="old-javascript"
    )
    server.wait_for(key, MONITORED, [THREAD])


@pytest.mark.parametrize("key", ["sp_key_unknown", "x"])
def test_an_unknown_key_reads_nothing(server, key):
    assert server.get("/api/run/", secret=key).status_code == 401
