"""Makes a data folder with the binary of a version, and the answers that this binary gives about it.

    python3 tests/folders/make.py BINARY VERSION

writes `VERSION.tar.gz` beside this file: `data/` and `answers.json`. Needs the standard library only.
The folder is left by a kill while the engine is stopped, so the log ends with a backlog that was answered with 200 and
is in no table. The answers come from a second start, after the backlog was processed.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WITHIN_S = 60
# Far in the future for retention, far enough in the past for no clock to be behind it.
NOON_MS = 1_795_176_000_000  # 2026-11-20T12:00:00Z
KEY = "sp_key_" + "a1" * 24
TOKEN = "sp_tok_" + "b2" * 24

# What is asked of the old binary once everything is stored, and again of every later one.
PATHS = [
    "/api/run?limit=100",
    "/api/run?model=house-1&min_cost=0.1&tags=night,day",
    "/api/run?sort=-total_cost&limit=3",
    "/api/run/call-1",
    "/api/run/root?app_id=shop",
    "/api/run/root/tree?app_id=shop",
    "/api/run/saved-1",
    "/api/run/failed-1",
    "/api/run/facets?from=2026-11-19T00:00:00Z",
    "/api/thread",
    "/api/thread/thread-1",
    "/api/dataset",
    "/api/dataset/export",
    "/api/run/export",
    "/api/analytics/usage/models?from=2026-11-19T00:00:00Z&to=2026-11-21T00:00:00Z",
    "/api/analytics/usage/costs?from=2026-11-19T00:00:00Z&to=2026-11-21T00:00:00Z",
    "/api/internal/projects",
    "/api/internal/keys",
    "/api/internal/tokens",
    "/api/internal/prices?origin=changed",
    "/api/internal/jobs",
    "/api/internal/dead-letters",
    "/api/platform/app/shop/build",
    "/api/platform/app/shop/build/b1",
    "/api/platform/process",
    "/api/platform/scan",
]
CURSOR_PATH = "/api/run?limit=2&sort=-total_cost"


def at(second):
    return NOON_MS + second * 1000


def events():
    """Events of every kind; one run each where nothing else is said."""
    both = {"user_email": "ann@example.com", "agent": "planner"}
    yield {"name": "agent_start", "app_id": "shop", "run_id": "root", "timestamp": at(0), "type": "agent",
           "metadata": both, "input": {"order": 7}, "tags": ["night"]}
    for n in range(6):
        parent = "root" if n < 3 else f"step-{n - 3}"
        yield {"name": "tool_start", "app_id": "shop", "run_id": f"step-{n}", "parent_run_id": parent,
               "timestamp": at(1 + n), "type": "tool", "run_name": "look up", "input": {"n": n}}
        yield {"name": "llm_call", "app_id": "shop", "run_id": f"model-{n}", "parent_run_id": f"step-{n}",
               "timestamp": at(2 + n), "type": "llm", "model": "house-1", "prompt_tokens": 100 + n,
               "completion_tokens": 20, "duration_ms": 900, "output": {"text": "found"}}
        yield {"name": "tool_end", "app_id": "shop", "run_id": f"step-{n}", "timestamp": at(3 + n), "output": {"ok": True}}
    yield {"name": "agent_end", "app_id": "shop", "run_id": "root", "timestamp": at(20), "output": {"done": True}}
    yield {"name": "llm_call", "run_id": "call-1", "timestamp": at(30), "type": "llm", "model": "house-1",
           "prompt_tokens": 1000, "completion_tokens": 500, "cached_tokens": 10, "reasoning_tokens": 5,
           "tags": ["day", "night"], "input": [{"role": "user", "content": "hello"}], "output": "hi", "metadata": both}
    yield {"name": "llm_call", "run_id": "given-1", "timestamp": at(31), "type": "llm", "model": "other", "cost": 0.125}
    yield {"name": "llm_call", "run_id": "unpriced-1", "timestamp": at(32), "type": "llm", "model": "unheard-of",
           "prompt_tokens": 7, "completion_tokens": 1}
    yield {"name": "agent_start", "run_id": "failed-1", "timestamp": at(33), "type": "agent"}
    yield {"name": "agent_error", "run_id": "failed-1", "timestamp": at(34),
           "error": {"name": "Timeout", "message": "after 3 s", "stack": "line 1"}}
    yield {"name": "agent_start", "run_id": "open-1", "timestamp": at(35), "type": "agent"}
    yield {"name": "agent_start", "run_id": "saved-1", "timestamp": at(36), "type": "agent", "input": "keep me"}
    yield {"name": "saved", "run_id": "saved-1", "timestamp": at(37)}
    yield {"name": "feedback", "run_id": "call-1", "timestamp": at(38), "rating": "positive", "comment": "good"}
    # A mark that waits for its run.
    yield {"name": "saved", "run_id": "late-1", "timestamp": at(39)}
    for n, (role, text) in enumerate([("user", "where is my order?"), ("assistant", "on its way"), ("user", "thanks")]):
        yield {"name": "chat", "run_id": f"chat-{n}", "timestamp": at(40 + n), "role": role, "content": text,
               "thread_id": "thread-1", "metadata": both}
    yield {"name": "feedback", "run_id": "chat-1", "timestamp": at(44), "rating": "negative", "comment": "too slow"}
    yield {"name": "chat", "run_id": "chat-9", "timestamp": at(50), "role": "user", "content": "grouped by time",
           "metadata": both}


def backlog():
    """Accepted and not processed: new runs, and news of old ones."""
    yield {"name": "agent_start", "run_id": "late-1", "timestamp": at(60), "type": "agent", "input": "late"}
    yield {"name": "agent_end", "run_id": "open-1", "timestamp": at(61), "output": "closed"}
    yield {"name": "llm_call", "app_id": "shop", "run_id": "model-9", "parent_run_id": "step-5", "timestamp": at(62),
           "type": "llm", "model": "house-1", "prompt_tokens": 1000, "completion_tokens": 1000}
    yield {"name": "feedback", "run_id": "call-1", "timestamp": at(63), "rating": "negative", "comment": "changed my mind"}


class Server:
    def __init__(self, binary, folder):
        environment = {
            **os.environ,
            "SPINDLE_API_KEY": KEY,
            "SPINDLE_ADMIN_TOKEN": TOKEN,
            "SPINDLE_INGEST__MAX_EVENT_AGE": "0s",
        }
        self.log = open(folder / "server.log", "w")
        address = folder / "data" / "address"
        command = [binary, "serve", "--listen", "127.0.0.1:0", "--data-dir", folder / "data"]
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.url = self.wait("an address", lambda: address.exists() and address.read_text().strip())
        self.wait("readiness", lambda: self.ask("GET", "/health/ready")[0] == 200)

    def wait(self, what, condition):
        end = time.monotonic() + WITHIN_S
        while not (value := condition()):
            assert self.process.poll() is None, f"the server ended while it was waited for {what}"
            assert time.monotonic() < end, f"waited {WITHIN_S} s for {what}"
            time.sleep(0.05)
        return value

    def ask(self, method, path, body=None, headers=()):
        """Status and body: JSON where it is, else text."""
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json", **dict(headers)}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                status, text = answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text

    def done(self, method, path, body=None, headers=()):
        status, answer = self.ask(method, path, body, headers)
        assert status in (200, 201, 202), f"{method} {path}: {status} {answer}"
        return answer

    def report(self, batch):
        answer = self.done("POST", "/api/report", {"events": list(batch)}, {"Authorization": f"Bearer {KEY}"})
        assert not answer.get("rejected"), answer

    def job(self, path, body):
        job = self.done("POST", path, body)
        self.wait(f"the job of {path}", lambda: self.done("GET", f"/api/internal/jobs/{job['job_id']}")["state"] == "done")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def engine(self):
        for task in os.listdir(f"/proc/{self.process.pid}/task"):
            children = pathlib.Path(f"/proc/{self.process.pid}/task/{task}/children").read_text().split()
            if children:
                return int(children[0])
        raise AssertionError("no engine")


def fill(server):
    server.done("PUT", "/api/internal/prices/house-1", {"input_per_1k": 0.5, "output_per_1k": 1})
    server.done("POST", "/api/internal/projects", {"project_id": "second"})
    second = server.done("POST", "/api/internal/keys", {"project_id": "second"})["secret"]
    viewer = server.done("POST", "/api/internal/tokens", {"role": "viewer", "projects": ["second"]})["secret"]
    schema = {"type": "object", "required": ["key1"], "properties": {"key1": {"type": "string"}}}
    build = {"status": "COMMITTED", "processes": [{"name": "Order", "schema": schema}]}
    server.done("PUT", "/api/platform/app/shop/build/b1", build)
    instance = server.done(
        "POST", "/rtm/api/runtime/app/shop/build/b1/process-name/Order/start", {"key1": "a"}, {"svc-platform": "web"}
    )
    server.report(events())
    other = [{"name": "agent_start", "run_id": "theirs", "timestamp": at(5), "type": "agent"}]
    server.done("POST", "/api/report", {"events": other}, {"Authorization": f"Bearer {second}"})
    server.wait("the runs", lambda: server.ask("GET", "/api/run/theirs")[0] == 200)
    server.wait("the saved run", lambda: server.ask("GET", "/api/run/saved-1")[0] == 200)
    server.wait("both threads", lambda: len(server.done("GET", "/api/thread")["data"]) == 2)
    server.job("/api/internal/cost/recalculate", {})
    server.done("GET", "/api/platform/discover")
    return {"second": second, "viewer": viewer, "instance": instance["uuid"]}


def answers(server, made):
    """What this version says of the folder once the backlog is processed."""
    server.wait("the backlog", lambda: server.ask("GET", "/api/run/model-9?app_id=shop")[0] == 200)
    server.wait("its feedback", lambda: "changed my mind" in json.dumps(server.ask("GET", "/api/run/call-1")[1]))
    paths = PATHS + [f"/api/platform/process/{made['instance']}", f"/api/run/{made['instance']}?app_id=shop"]
    said = [{"path": path, "body": server.done("GET", path)} for path in paths]
    page = server.done("GET", CURSOR_PATH)
    path = f"{CURSOR_PATH}&cursor={page['next_cursor']}"
    return {"answers": said, "next_page": {"path": path, "body": server.done("GET", path)}}


def main():
    binary, version = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    with tempfile.TemporaryDirectory() as name, tarfile.open(HERE / f"{version}.tar.gz", "w:gz", compresslevel=9) as archive:
        folder = pathlib.Path(name)
        server = Server(binary, folder)
        try:
            made = fill(server)
            # The engine stands still: what is reported from here on is in the log only.
            engine = server.engine()
            os.kill(engine, signal.SIGSTOP)
            server.report(backlog())
        finally:
            server.kill()
        os.kill(engine, signal.SIGKILL)
        archive.add(folder / "data", "data")
        (folder / "data" / "address").unlink()
        server = Server(binary, folder)
        try:
            said = {"version": version, "key": KEY, "token": TOKEN, **made, **answers(server, made)}
        finally:
            server.kill()
        (folder / "answers.json").write_text(json.dumps(said, indent=1))
        archive.add(folder / "answers.json", "answers.json")


if __name__ == "__main__":
    main()
