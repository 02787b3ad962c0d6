"""The real `llmonitor` package reports; the runs appear as their author would expect."""

import pytest
from stub_openai import ANSWER, COMPLETION_TOKENS, PROMPT_TOKENS


def closed(server, count, app, secret=None):
    """The runs of an app once none of them is open."""

    def none_open():
        runs = server.runs(count, secret=secret, app_id=app)
        return runs if all(run["status"] != "started" for run in runs.values()) else None

    return server.wait(none_open, 30)


def by_name(runs):
    """Runs by name; several of one name in order of start."""
    names = {}
    for run in sorted(runs.values(), key=lambda run: run["started_at"]):
        names.setdefault(run["name"], []).append(run)
    return names


def assert_decorated_agent(server, app):
    runs = closed(server, 7, app)
    assert len(runs) == 7
    names = by_name(runs)

    agent = names["weather-agent"][0]
    assert (agent["type"], agent["status"], agent["parent_run_id"]) == ("agent", "success", None)
    assert agent["tags"] == ["v1"]
    assert ANSWER[:20] in agent["output_preview"]

    calls = [run for run in runs.values() if run["type"] == "llm"]
    assert len(calls) == 3
    first, second = (run for run in names["gpt-4o-mini"] if run["parent_run_id"] == agent["run_id"])
    for call in (first, second):
        assert call["model"] == "gpt-4o-mini" and call["status"] == "success"
        assert (call["prompt_tokens"], call["completion_tokens"]) == (PROMPT_TOKENS, COMPLETION_TOKENS)
        assert call["total_tokens"] == PROMPT_TOKENS + COMPLETION_TOKENS
        assert call["root_run_id"] == agent["run_id"]
        assert call["latency_s"] >= 0

    tool = names["get_weather"][0]
    assert (tool["type"], tool["status"], tool["parent_run_id"]) == ("tool", "success", agent["run_id"])

    failing = names["failing-agent"][0]
    assert failing["status"] == "error" and "500" in str(failing["error"])
    lookup = names["lookup"][0]
    assert lookup["status"] == "error" and "Atlantis" in str(lookup["error"])
    assert lookup["parent_run_id"] == failing["run_id"]

    tree = server.get(f"/api/run/{agent['run_id']}/tree", app_id=app).json()
    assert tool["run_id"] in str(tree) and second["run_id"] in str(tree)
    assert failing["run_id"] not in str(tree)

    whole = server.get(f"/api/run/{first['run_id']}", app_id=app).json()
    assert "What is the weather in Paris?" in str(whole["input"])


def test_decorators_with_the_key_in_the_address(server, run_client):
    app = "decorated"
    run_client("decorated_agent.py", app, server.key)
    assert_decorated_agent(server, app)


def test_decorators_of_an_app_that_needs_no_key(server, run_client):
    app = "old-client"
    server.command("project", "create", "keyless", "--keyless-app", app)
    run_client("decorated_agent.py", app, None)
    key = created_secret(server.command("key", "create", "--project", "keyless"))
    runs = closed(server, 7, app, secret=key)
    assert len(runs) == 7
    # (T1) the project of the first key never sees them.
    assert server.get("/api/run/", app_id=app).json()["data"] == []


def test_the_langchain_callback_handler(server, run_client):
    app = "langchain"
    output = run_client("langchain_agent.py", app, server.key)
    assert ANSWER in output
    runs = closed(server, 4, app)
    names = by_name(runs)
    agent = next(run for run in runs.values() if run["parent_run_id"] is None)
    assert (agent["type"], agent["status"]) == ("agent", "success")
    assert ANSWER[:20] in agent["output_preview"]
    calls = names["gpt-4o-mini"]
    assert len(calls) == 2
    for call in calls:
        assert call["parent_run_id"] == agent["run_id"]
        assert (call["prompt_tokens"], call["completion_tokens"]) == (PROMPT_TOKENS, COMPLETION_TOKENS)
    tool = next(run for run in runs.values() if run["type"] == "tool")
    assert (tool["name"], tool["status"], tool["parent_run_id"]) == ("get_weather", "success", agent["run_id"])


def created_secret(output):
    """The secret as `create` shows it once."""
    lines = dict(line.split(": ", 1) for line in output.splitlines() if ": " in line)
    return next(value for name, value in lines.items() if value.startswith("sp_"))


@pytest.mark.parametrize("key", ["sp_key_unknown", "x"])
def test_an_unknown_key_reads_nothing(server, key):
    assert server.get("/api/run/", secret=key).status_code == 401
