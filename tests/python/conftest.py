"""The real server, started once for all tests of this folder and stopped as an operator would: as one process, and as
tiers over a broker and a ClickHouse server behind one address."""

import json
import os
import pathlib
import signal
import subprocess
import time

import pytest
import requests

import stub_model
from expectation import faults_of_runs, faults_of_threads, size
from stub_answer import ANSWER

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("SPINDLE_BIN", "target/debug/spindle"))
READY_WITHIN_S = 60
# A broker, an engine and four processes.
STANDS_WITHIN_S = 180
VISIBLE_WITHIN_S = 30
NOON = "2026-11-20T12:00:00.000Z"


class Server:
    """A running `spindle serve` and what is needed to talk to it."""

    def __init__(self, folder, settings=None):
        self.folder = folder
        self.key = "sp_key_" + os.urandom(24).hex()
        self.token = "sp_tok_" + os.urandom(24).hex()
        self.log = open(folder / "server.log", "w+")
        environment = {
            **os.environ,
            "SPINDLE_API_KEY": self.key,
            "SPINDLE_ADMIN_TOKEN": self.token,
            # Events in tests have fixed times, which get older.
            "SPINDLE_INGEST__MAX_EVENT_AGE": "0s",
            **(settings or {}),
        }
        command = [ROOT / BIN, "serve", "--listen", "127.0.0.1:0", "--data-dir", folder / "data"]
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.log
        )
        self.url = self.wait(self.address, READY_WITHIN_S)
        self.wait(lambda: self.get("/health/ready").ok, READY_WITHIN_S)

    def address(self):
        path = self.folder / "data" / "address"
        return path.read_text().strip() if path.exists() else None

    def wait(self, condition, seconds):
        """Asks until the condition holds, at most half of the time; a server that ended fails at once."""
        end = time.monotonic() + seconds
        while True:
            assert self.process.poll() is None, self.logs()
            asked = time.monotonic()
            value = condition()
            if value:
                return value
            assert time.monotonic() < end, self.logs()
            time.sleep(min(max(0.05, time.monotonic() - asked), 0.5))

    def get(self, path, secret=None, **params):
        headers = {"Authorization": f"Bearer {secret or self.key}"}
        return requests.get(self.url + path, headers=headers, params=params, timeout=30)

    def report(self, body, secret=None):
        headers = {"Authorization": f"Bearer {secret or self.key}"}
        return requests.post(self.url + "/api/report", headers=headers, json=body, timeout=30)

    def runs(self, count, secret=None, **filters):
        """The runs of these filters, by id, once there are as many as expected and all of them are closed or stay open."""

        def complete():
            response = self.get("/api/run/", secret=secret, limit=1000, **filters)
            assert response.status_code == 200, response.text
            found = {run["run_id"]: run for run in response.json()["data"]}
            return found if len(found) >= count else None

        return self.wait(complete, VISIBLE_WITHIN_S)

    def listed(self, secret):
        """Every run of a project as the list shows it."""
        response = self.get("/api/run/", secret=secret, limit=1000)
        assert response.status_code == 200, response.text
        return response.json()["data"]

    def whole_runs(self, secret):
        """Every run of a project with all that is known of it."""
        listed = self.listed(secret)
        return [self.get(f"/api/run/{run['run_id']}", secret=secret, app_id=run["app_id"]).json() for run in listed]

    def whole_threads(self, secret):
        """Every thread of a project with its messages."""
        response = self.get("/api/thread/", secret=secret)
        assert response.status_code == 200, response.text
        threads = response.json()["data"]
        return [{**thread, **self.get(f"/api/thread/{thread['thread_id']}", secret=secret).json()} for thread in threads]

    def view(self, secret):
        """Everything that can be seen of a project: its runs and its threads, whole."""
        return self.whole_runs(secret), self.whole_threads(secret)

    def wait_for(self, secret, trees, threads=()):
        """Waits until a project shows these runs and threads and nothing else, as `expectation.py` says; returns them.

        Without threads (`None`) only the runs are compared.
        """
        seen = None

        def faults():
            nonlocal seen
            seen = self.view(secret)
            return faults_of_runs(trees, seen[0]) + (faults_of_threads(threads, seen[1]) if threads is not None else [])

        try:
            self.wait(lambda: len(self.listed(secret)) == size(trees) and not faults(), VISIBLE_WITHIN_S)
        except AssertionError:
            found = faults()
            if not found:
                raise
        else:
            return seen
        pytest.fail("\n".join(found))

    def project_key(self, keyless_app=None):
        """The key of a new project, whose data no other test sees, once the tier that takes events knows it."""
        name = f"p-{os.urandom(8).hex()}"
        self.command("project", "create", name, *(["--keyless-app", keyless_app] if keyless_app else []))
        key = json.loads(self.command("key", "create", "--project", name, "--json"))["secret"]
        self.wait(lambda: self.report({"events": []}, secret=key).ok, VISIBLE_WITHIN_S)
        if keyless_app:
            # Feedback on a run that never comes shows nowhere; it is answered 401 until the app is known.
            unseen = {"name": "feedback", "run_id": "unseen", "app_id": keyless_app, "rating": "positive", "timestamp": NOON}
            body = {"events": [unseen]}
            self.wait(lambda: requests.post(f"{self.url}/api/report", json=body, timeout=30).ok, VISIBLE_WITHIN_S)
        return key

    def command(self, *arguments):
        """Runs a command of the binary against this server."""
        environment = {**os.environ, "SPINDLE_URL": self.url, "SPINDLE_ADMIN_TOKEN": self.token}
        done = subprocess.run([ROOT / BIN, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def logs(self):
        self.log.seek(0)
        return self.log.read()[-20000:]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0, self.logs()


def live_suite():
    """The newest build of the suite in Rust: the target `binary` of the Makefile builds it."""
    built = [path for path in (ROOT / BIN).parent.glob("deps/live-*") if os.access(path, os.X_OK) and path.is_file()]
    assert built, "tests/live is not built: run `make binary`"
    return max(built, key=lambda path: path.stat().st_mtime)


class Tiers(Server):
    """A deployment of tiers, which the suite in Rust starts; see tests/live/stand.rs."""

    def __init__(self, folder):
        self.folder = folder
        test = "stand::a_deployment_stands_behind_one_address_and_ends_in_order"
        command = [live_suite(), "--exact", "--nocapture", test]
        self.log = open(folder / "stand.log", "w+")
        self.log_paths = []
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "SPINDLE_TEST_STAND": str(folder)},
            stdin=subprocess.PIPE,
            stdout=self.log,
            stderr=self.log,
        )
        stand = json.loads(self.wait(self.stand, STANDS_WITHIN_S))
        self.url, self.key, self.token = stand["url"], stand["key"], stand["token"]
        self.log_paths = [pathlib.Path(path) for path in stand["logs"]]

    def stand(self):
        path = self.folder / "stand.json"
        return path.read_text() if path.exists() else None

    def logs(self):
        logs = [path.read_text()[-20000:] for path in self.log_paths if path.exists()]
        return "\n".join([*logs, super().logs()])

    def stop(self):
        self.process.stdin.close()
        assert self.process.wait(120) == 0, self.logs()


WAYS = {"one_process": Server, "tiers": Tiers}


def running_server(way, folder):
    """A server from ready to stopped; what it logged holds no secret and no content (X2)."""
    running = WAYS[way](folder)
    try:
        yield running
        logged = running.logs()
        running.stop()
        logged += running.logs()
        assert running.key not in logged and running.token not in logged
        assert ANSWER not in logged
    finally:
        running.process.kill()


@pytest.fixture(scope="session", params=WAYS)
def server(request, tmp_path_factory):
    """The server most tests share."""
    yield from running_server(request.param, tmp_path_factory.mktemp("server"))


@pytest.fixture(scope="module", params=WAYS)
def own_server(request, tmp_path_factory):
    """A server for a file of tests that change what others rely on."""
    yield from running_server(request.param, tmp_path_factory.mktemp("own-server"))


@pytest.fixture(scope="session")
def model_endpoint():
    stub, url = stub_model.start()
    yield url
    stub.shutdown()


@pytest.fixture
def run_client(model_endpoint):
    """Runs one of the client programs to its end, as its user would, with nothing set but what is given."""

    def run(command, **variables):
        environment = {
            "PATH": os.environ["PATH"],
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": f"{model_endpoint}/v1",
            "OPENAI_API_BASE": f"{model_endpoint}/v1",
            "ANTHROPIC_API_KEY": "none",
            "ANTHROPIC_BASE_URL": model_endpoint,
            "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": model_endpoint,
            "AWS_ACCESS_KEY_ID": "none",
            "AWS_SECRET_ACCESS_KEY": "none",
            "AWS_REGION": "us-east-1",
            **variables,
        }
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        output = done.stdout + done.stderr
        assert done.returncode == 0, output
        # What the exporters and the old clients say when a batch is lost.
        assert "Error sending events" not in output and "Failed to export" not in output, output
        return output

    return run
