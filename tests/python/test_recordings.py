"""What the clients of 2026 sent becomes the runs that their users expect; `tests/recordings/README.md` says how it is
judged."""

import base64
import json
import pathlib
import sys

import pytest
import requests

RECORDINGS = pathlib.Path(__file__).resolve().parents[1] / "recordings"
EXPECTED = {name: wanted for name, wanted in json.loads((RECORDINGS / "expect.json").read_text()).items() if name != "_"}
NOT_YET = json.loads((RECORDINGS / "not_yet.json").read_text())
# What the connection of the day decides, or the test.
NOT_SENT_AGAIN = {"host", "connection", "content-length", "transfer-encoding", "authorization", "accept-encoding"}
VISIBLE_WITHIN_S = 30


@pytest.mark.parametrize("name", EXPECTED)
def test_a_recording_is_what_its_user_expects(server, name):
    key = server.project_key()
    replay(server.url, key, name)
    not_yet = set(NOT_YET.get(name, {}))
    found = {}

    def is_as_expected():
        nonlocal found
        found = faults(View(server.url, key), EXPECTED[name])
        return set(found) == not_yet

    try:
        server.wait(is_as_expected, VISIBLE_WITHIN_S)
    except AssertionError:
        new = {what: fault for what, fault in found.items() if what not in not_yet}
        pytest.fail(f"not met: {new}; met and still listed in not_yet.json: {sorted(not_yet - set(found))}\n{server.logs()[-2000:]}")


CODING_AGENTS = ["claude-code-2.1.330", "codex-0.169.0", "gemini-cli-0.61.0"]


@pytest.mark.parametrize("signal", ["traces", "logs"])
@pytest.mark.parametrize("name", CODING_AGENTS)
def test_one_signal_of_a_coding_agent_is_enough(server, name, signal):
    key = server.project_key()
    replay(server.url, key, name, signal)

    def is_one_tree_with_each_call_once():
        view = View(server.url, key)
        roots = [run for run in view.roots if run["type"] != "internal"]
        calls = [run for run in view.runs if run["type"] == "llm"]
        agents = view.whole("agent")
        return (
            len(roots) == 1
            and roots[0]["type"] == "agent"
            and roots[0]["llm_calls"] == EXPECTED[name]["calls"] == len(calls)
            and all(run["model"] for run in calls)
            and {run["thread_id"] for run in agents} == {roots[0]["thread_id"]} != {None}
            # Codex's spans have no text.
            and (has_input(agents) or (name, signal) == ("codex-0.169.0", "traces"))
        )

    server.wait(is_one_tree_with_each_call_once, VISIBLE_WITHIN_S)


@pytest.mark.parametrize("name", CODING_AGENTS)
def test_both_signals_of_a_coding_agent_meet_in_any_order(server, name):
    keys = [server.project_key(), server.project_key()]
    replay(server.url, keys[0], name)
    replay(server.url, keys[1], name, is_reversed=True)

    def tree(key):
        """The runs with their places, once everything is there."""
        view = View(server.url, key)
        roots = [run for run in view.roots if run["type"] != "internal"]
        tools = [run for run in view.runs if run["type"] == "tool"]
        signals = {run["cost_status"] == "counted_elsewhere" for run in view.runs if run["type"] == "llm"}
        # The start of Codex is of no turn: one run for each minute.
        is_whole = len(roots) == len(tools) == 1 and len(view.roots) <= 3 and signals == {False, True}
        is_whole = is_whole and roots[0]["llm_calls"] == EXPECTED[name]["calls"]
        return is_whole and sorted((run["run_id"], run["parent_run_id"] or "", run["type"]) for run in view.runs)

    def are_equal():
        one, other = map(tree, keys)
        return one and one == other

    server.wait(are_equal, VISIBLE_WITHIN_S)


def has_input(runs):
    return runs and all(run["input"] for run in runs)


def replay(url, key, name, signal="", is_reversed=False):
    """Sends the requests of a recording (of one signal) in order, with a key of this server."""
    with requests.Session() as session:
        for path in sorted((RECORDINGS / name).glob(f"*{signal}.json"), reverse=is_reversed):
            recorded = json.loads(path.read_text())
            headers = {header: value for header, value in recorded["headers"].items() if header.lower() not in NOT_SENT_AGAIN}
            sent = {header.lower(): value for header, value in recorded["headers"].items()}.get("authorization", "")
            if sent.startswith("Basic"):
                headers["Authorization"] = "Basic " + base64.b64encode(f"pk-lf-tests:{key}".encode()).decode()
            elif sent:
                headers["Authorization"] = f"Bearer {key}"
            body = path.with_suffix(".bin")
            if body.exists():
                data = body.read_bytes()
            else:
                data = b"" if recorded["body_kind"] == "empty" else json.dumps(recorded["body"]).encode()
            request = requests.Request(recorded["method"], url + recorded["path"], headers=headers, params=recorded["query"], data=data)
            session.send(session.prepare_request(request), timeout=30)


class View:
    """What a project shows of its runs and threads."""

    def __init__(self, url, key):
        self.session = requests.Session()
        self.session.headers["Authorization"] = f"Bearer {key}"
        self.url = url
        self.runs = self.pages("/api/run/")
        known = {run["run_id"] for run in self.runs}
        self.roots = [run for run in self.runs if run["parent_run_id"] not in known]

    def get(self, path, **params):
        answer = self.session.get(self.url + path, params=params, timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def pages(self, path):
        page = self.get(path, limit=1000)
        items = page["data"]
        while page.get("next_cursor"):
            page = self.get(path, limit=1000, cursor=page["next_cursor"])
            items += page["data"]
        return items

    def whole(self, kind):
        """The runs of a type that succeeded, with all that is known of them."""
        runs = [run for run in self.runs if run["type"] == kind and run["status"] == "success"]
        return [self.get(f"/api/run/{run['run_id']}", app_id=run["app_id"]) for run in runs]


def faults(view, expected):
    """What differs, by the name of the expectation."""
    found = {}

    def check(name, is_met, seen):
        if not is_met:
            found[name] = f"expected {expected[name]}, found {seen}"

    if not view.runs:
        return {name: "there are no runs" for name in expected}
    if "cost" in expected:
        cost = sum(run["total_cost"] for run in view.roots)
        check("cost", within(cost, expected["cost"]), cost)
    if "calls" in expected:
        calls = sum(run["llm_calls"] for run in view.roots)
        check("calls", calls == expected["calls"], calls)
    if "tokens" in expected:
        tokens = sum(run["total_tokens_with_children"] for run in view.roots)
        check("tokens", within(tokens, expected["tokens"]), tokens)
    if "runs_min" in expected:
        check("runs_min", len(view.runs) >= expected["runs_min"], len(view.runs))
    if "user" in expected:
        users = {run["user_email"] for run in view.runs}
        check("user", expected["user"] in users, users)
    if "thread" in expected:
        ids = {run["thread_id"] for run in view.runs}
        threads = {thread["thread_id"] for thread in view.pages("/api/thread/")}
        check("thread", expected["thread"] in ids & threads, (ids, threads))
    if "tag" in expected:
        tags = {tag for run in view.runs for tag in run["tags"]}
        check("tag", expected["tag"] in tags, tags)
    if "types" in expected:
        types = {(run["name"], run["type"]) for run in view.runs}
        is_there = lambda key, kind: any(is_named(name, key) and kind == of for name, of in types)  # noqa: E731
        check("types", all(is_there(key, kind) for key, kind in expected["types"].items()), types)
    for name, kind in [("tool_io", "tool"), ("agent_io", "agent"), ("retriever_io", "retriever")]:
        if name in expected:
            runs = view.whole(kind)
            empty = [run["name"] for run in runs if not has_both(run)]
            check(name, runs and not empty, empty or "no such run")
    if "io" in expected:
        runs = view.whole("llm")
        share = sum(map(has_both, runs)) / max(len(runs), 1)
        check("io", share >= expected["io"], share)
    if "messages" in expected:
        runs = view.whole("llm")
        check("messages", runs and all(is_messages(run["input"]) for run in runs), [run["input"] for run in runs][:1])
    return found


def within(value, wanted):
    low, high = wanted if isinstance(wanted, list) else (wanted, wanted)
    return low * (1 - 1e-6) <= value <= high * (1 + 1e-6)


def is_named(name, key):
    return name == key if len(key) < 3 else key in name


def has_both(run):
    return run["input"] not in (None, "", [], {}) and run["output"] not in (None, "", [], {})


def is_messages(value):
    return isinstance(value, list) and value and all(isinstance(one, dict) and "role" in one and "content" in one for one in value)


def table(url, token):
    """Prints what each recording gives against a running server."""
    import os
    import time

    operator = {"Authorization": f"Bearer {token}"}
    for name, expected in EXPECTED.items():
        project = f"p-{os.urandom(8).hex()}"
        answer = requests.post(f"{url}/api/internal/projects", headers=operator, json={"project_id": project}, timeout=30)
        made = requests.post(f"{url}/api/internal/keys", headers=operator, json={"project_id": project, "name": "table"}, timeout=30)
        assert answer.ok and made.ok, (answer.text, made.text)
        key = made.json()["secret"]
        time.sleep(0.5)
        replay(url, key, name)
        time.sleep(2)
        found = faults(View(url, key), expected)
        print(f"{name:36} {'as expected' if not found else ''}")
        for what, fault in found.items():
            print(f"    {what:10} {fault[:300]}")


if __name__ == "__main__":
    table(*sys.argv[1:])
