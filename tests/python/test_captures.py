"""Traffic recorded from real clients is accepted as it was sent, and sent twice it changes nothing (P2)."""

import json
import pathlib
import uuid

import pytest

CAPTURES = pathlib.Path(__file__).resolve().parents[1] / "captures"
BODIES = sorted(CAPTURES.glob("*/*/*-POST-api-report.json"))


def renamed(value, app):
    """The same events under an app of their own, so that tests do not see each other."""
    if isinstance(value, list):
        return [renamed(item, app) for item in value]
    return {**value, "app": app}


def count(value):
    return sum(count(item) for item in value) if isinstance(value, list) else 1


def ids(value):
    """The runs that events make; feedback waits for a run and makes none."""
    if isinstance(value, list):
        return set().union(*(ids(item) for item in value))
    return {value["runId"]} if value.get("runId") and value["event"] != "feedback" else set()


@pytest.mark.parametrize("path", BODIES, ids=lambda path: f"{path.parts[-3]}-{path.parts[-2]}-{path.name[:3]}")
def test_a_recorded_body_is_kept_whole(server, path):
    events = json.loads(path.read_text())["body"]["events"]
    app = f"capture-{uuid.uuid4()}"
    body = {"events": renamed(events, app)}
    first = server.report(body)
    assert first.status_code == 200, first.text
    answer = first.json()
    reasons = {error["code"] for error in answer["errors"]}
    assert answer["accepted"] + answer["rejected"] == count(events)
    # Logs of the npm client belong to no run.
    assert reasons <= {"missing_field"}, answer

    wanted = ids(events)
    runs = server.runs(len(wanted), app_id=app) if wanted else {}
    assert wanted <= set(runs)
    assert server.report(body).json()["accepted"] == answer["accepted"]
    again = server.report({"events": [{"name": "agent_start", "run_id": "after", "app_id": app, "timestamp": "2026-11-20T12:00:00.000Z"}]})
    assert again.json()["accepted"] == 1
    after = server.runs(len(runs) + 1, app_id=app)
    assert {name: after[name] for name in runs} == runs
