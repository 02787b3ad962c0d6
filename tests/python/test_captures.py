"""Traffic recorded from real clients becomes the runs its reader expects, and sent twice it changes nothing (P2)."""

import pytest
import recorded
from conftest import NOON


# What becomes of an event is the same code in every tier; that tiers take these clients is shown with the clients themselves.
@pytest.mark.parametrize("server", ["one_process"], indirect=True)
@pytest.mark.parametrize("scenario", recorded.scenarios(), ids=lambda scenario: scenario.name)
def test_a_recorded_scenario_is_what_its_reader_expects(server, scenario):
    key = server.project_key()
    assert faults_of_answers(scenario, scenario.replay(server, key)) == []
    before = server.wait_for(key, scenario.expected["runs"], scenario.expected.get("threads", []))
    assert faults_of_answers(scenario, scenario.replay(server, key)) == []
    settle(server, key, {run["app_id"] for run in before[0]})
    assert changes(before, server.view(key)) == []


def faults_of_answers(scenario, answers):
    """How the answers differ: 200 and nothing rejected, but where it is said otherwise."""
    statuses = scenario.expected.get("statuses", {})
    faults = []
    for name, answer in answers.items():
        counts = "POST-api-report" in name or "POST-v1-runs-ingest" in name
        rejected = answer.json()["rejected"] if counts else 0
        wanted_rejected = scenario.expected.get("rejected", {}).get(name, 0)
        if answer.status_code not in statuses.get(name, [200]) or rejected != wanted_rejected:
            faults.append(f"{name}: {answer.status_code}, {rejected} rejected: {answer.text[:500]}")
    return faults


def settle(server, key, apps):
    """Waits until an event sent now shows in each app, and with it what came before."""
    for app in apps:
        event = {"name": "agent_start", "run_id": "after", "app_id": app, "timestamp": NOON}
        assert server.report({"events": [event]}, secret=key).json()["accepted"] == 1
        server.wait(lambda: server.get("/api/run/after", secret=key, app_id=app).ok, 30)


def changes(before, after):
    """Which fields of which runs and threads are not what they were."""
    fields = [dict(fields_of(*seen)) for seen in (before, after)]
    names = sorted(fields[0].keys() | fields[1].keys())
    return [(name, fields[0].get(name), fields[1].get(name)) for name in names if fields[0].get(name) != fields[1].get(name)]


def fields_of(runs, threads):
    """All fields of runs and threads; for a duplicate event the server shows its later arrival, which is left out."""
    for item in [run for run in runs if run["run_id"] != "after"] + threads:
        events = [{**event, "received_at": None} for event in item.get("events", [])]
        for name, value in {**item, "events": events}.items():
            yield (item.get("run_id") or item["thread_id"], name), value
