"""The examples, run as their reader would, against the real server: runs, tree, costs, threads and judgements."""

import os
import pathlib
import subprocess
import sys

import pytest
from conftest import SOURCES

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples" / "python"
ANSWER = "Paris has 18 degrees and light rain."


@pytest.fixture
def example(spindle):
    def run(name, app):
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": SOURCES,
            "PYTHONDONTWRITEBYTECODE": "1",
            "SPINDLE_URL": spindle.url,
            "SPINDLE_API_KEY": spindle.key,
            "SPINDLE_APP_ID": app,
        }
        command = [sys.executable, EXAMPLES / name]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
        return done.stdout

    return run


def test_an_agent_with_nothing_but_the_library(spindle, example):
    assert example("agent.py", "plain") == f"{ANSWER}\nas expected: there is no Atlantis\n"
    runs = spindle.runs(8, app_id="plain")
    assert len(spindle.get("/api/run/", app_id="plain")["data"]) == 8
    session, agent = runs["session"], runs["weather-agent"]

    # The tree.
    assert session["parent_run_id"] is None and agent["parent_run_id"] == session["run_id"]
    calls = spindle.get("/api/run/", app_id="plain", name="ask-model", sort="started_at")["data"]
    tools = spindle.get("/api/run/", app_id="plain", name="get_weather", status="success")["data"]
    assert [run["parent_run_id"] for run in [*calls, *tools, runs["stream-model"]]] == [agent["run_id"]] * 4
    tree = str(spindle.get(f"/api/run/{session['run_id']}/tree", app_id="plain"))
    assert all(run["run_id"] in tree for run in [agent, *calls, *tools]) and runs["lost-agent"]["run_id"] not in tree
    assert all(run["root_run_id"] == session["run_id"] for run in calls)

    # What they say.
    assert (agent["type"], agent["status"], agent["agent"], agent["tags"]) == (
        "agent",
        "success",
        "weather-agent",
        ["example"],
    )
    assert {run["agent"] for run in calls} == {"weather-agent"}
    assert {run["user_email"] for run in [session, agent, *calls]} == {"ada@example.com"}
    assert {run["thread_id"] for run in [session, agent, *calls]} == {"talk-1"}
    assert ANSWER in spindle.get(f"/api/run/{runs['stream-model']['run_id']}", app_id="plain")["output"]
    whole = spindle.get(f"/api/run/{calls[1]['run_id']}", app_id="plain")
    assert [message["role"] for message in whole["input"]] == ["user", "assistant", "tool"]

    # Costs: of the model that answered, once in each run above.
    for call in calls:
        assert (call["model"], call["cost_status"]) == ("gpt-4o-mini-2024-07-18", "priced")
        assert (call["prompt_tokens"], call["completion_tokens"], call["total_tokens"]) == (37, 11, 48)
    assert session["llm_calls"] == 3 and session["total_cost"] == pytest.approx(sum(call["cost"] for call in calls))
    assert calls[0]["cost"] > 0

    # What went wrong.
    lost = runs["lost-agent"]
    failing = spindle.get("/api/run/", app_id="plain", name="get_weather", status="error")["data"][0]
    assert (lost["status"], failing["parent_run_id"]) == ("error", lost["run_id"])
    assert "Atlantis" in str(failing["error"])

    # The conversation, and what people think of it.
    thread = spindle.get("/api/thread/talk-1", app_id="plain")
    said = [(message["role"], message["content"]) for message in thread["messages"]]
    assert said == [("user", "What is the weather in Paris?"), ("assistant", ANSWER)]
    judged = spindle.get("/api/run/", app_id="plain", feedback="positive")["data"]
    assert [(run["run_id"], run["feedback"]["comment"]) for run in judged] == [(calls[1]["run_id"], "quick and right")]
    assert [run["run_id"] for run in spindle.get("/api/dataset/", app_id="plain")["data"]] == [session["run_id"]]


def test_the_packages_that_are_observed(spindle, example):
    assert example("packages.py", "packages") == f"{ANSWER}\n" * 3
    runs = spindle.runs(12, app_id="packages")
    assert len(spindle.get("/api/run/", app_id="packages")["data"]) == 12
    for name, call, count in (("openai-agent", "openai.chat", 2), ("anthropic-agent", "anthropic.messages", 2)):
        agent = runs[name]
        assert (agent["type"], agent["status"], agent["llm_calls"]) == ("agent", "success", count)
        calls = spindle.get("/api/run/", app_id="packages", name=call)["data"]
        assert [run["parent_run_id"] for run in calls] == [agent["run_id"]] * count
        assert {(run["prompt_tokens"], run["completion_tokens"]) for run in calls} == {(37, 11)}
    assert agent["total_tokens_with_children"] == 96
    assert {
        run["parent_run_id"] for run in spindle.get("/api/run/", app_id="packages", name="get_weather")["data"]
    } == {
        runs["openai-agent"]["run_id"],
        runs["anthropic-agent"]["run_id"],
    }
    assert runs["brief-chain"]["parent_run_id"] == runs["langchain-agent"]["run_id"]
    assert runs["FakeListChatModel"]["parent_run_id"] == runs["brief-chain"]["run_id"]


def test_a_key_the_server_does_not_know_is_told_and_counted(spindle, make, caplog):
    client = make(url=spindle.url, api_key="sp_key_" + "0" * 48)
    client.chat("user", "hello", "talk")
    client.flush(20)
    assert client.stats().dropped.failed == 1
    assert "401" in caplog.text and "sp_key_" not in caplog.text


def test_events_sent_again_happen_once(spindle, make):
    client = make(url=spindle.url, api_key=spindle.key, app_id="again", retries=1)
    post = client._worker._connection.post
    posted = []

    def lost(body, timeout_s):
        answer = post(body, timeout_s)
        posted.append(body)
        if len(posted) == 1:
            from spindle_client.http import RefusedError

            raise RefusedError("the answer was lost", is_retryable=True)
        return answer

    client._worker._connection.post = lost
    with client.agent("clerk") as run:
        # The same words twice are two messages.
        client.chat("user", "hello", "talk-again")
        client.chat("user", "hello", "talk-again")
    client.feedback(run, "positive")
    assert client.flush(20)
    assert len(posted) == 2 and posted[0] == posted[1] and client.stats().accepted == 5
    spindle.runs(1, app_id="again")
    thread = spindle.wait(lambda: spindle.get("/api/thread/talk-again", app_id="again"))
    assert len(thread["messages"]) == 2


def test_the_real_server_refuses_nothing_of_what_can_be_reported(spindle, make):
    client = make(url=spindle.url, api_key=spindle.key, app_id="odd")
    long = "é" * 3000
    with client.agent(long, tags=[long] * 3, metadata={long: long, "n": float("nan")}, input={1: {2: b"x"}}) as run:
        run.output = [None, "\x00\ud800", 10**40, {"a": [[[[[1]]]]]}]
        run.model = long
        run.usage(prompt_tokens=1, completion_tokens=2**60)
        client.chat("user", "", long)
        client.saved()
    with client.tool("large", input="y" * 5_000_000, metadata={"z": ["z" * 1000] * 5000}) as run:
        run.output = "\x01" * 1_000_000
    assert client.flush(20)
    stats = client.stats()
    assert (stats.rejected, stats.dropped.total, stats.accepted) == (0, 0, stats.made)
