"""The real binary, started for the tests and stopped as an operator would; standard library only."""

import json
import os
import pathlib
import signal
import subprocess
import time
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

ROOT = pathlib.Path(__file__).resolve().parents[3]
BIN = ROOT / os.environ.get("SPINDLE_BIN", "target/debug/spindle")
WITHIN_S = 60


class RealServer:
    """A running `spindle serve` with a key of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.key = "sp_key_" + os.urandom(24).hex()
        environment = {
            **os.environ,
            "SPINDLE_API_KEY": self.key,
            "SPINDLE_ADMIN_TOKEN": "sp_tok_" + os.urandom(24).hex(),
        }
        self.log = open(folder / "server.log", "w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [BIN, "serve", "--listen", "127.0.0.1:0", "--data-dir", folder / "data"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self.log,
        )
        address = folder / "data" / "address"
        self.url = self.wait(lambda: address.exists() and address.read_text().strip())
        self.wait(self.is_ready)

    def is_ready(self):
        try:
            with urlopen(self.url + "/health/ready", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def wait(self, condition):
        """Asks until the condition holds; a server that ended fails at once."""
        end = time.monotonic() + WITHIN_S
        while True:
            assert self.process.poll() is None, self.logs()
            value = condition()
            if value:
                return value
            assert time.monotonic() < end, self.logs()
            time.sleep(0.05)

    def logs(self):
        self.log.seek(0)
        return self.log.read()[-10000:]

    def get(self, path, **parameters):
        query = "?" + urlencode(parameters) if parameters else ""
        request = Request(self.url + quote(path) + query, headers={"Authorization": f"Bearer {self.key}"})
        with urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def runs(self, count, **filters):
        """The runs of these filters by name, once so many are there and none is open."""

        def complete():
            found = self.get("/api/run/", limit=1000, **filters)["data"]
            is_complete = len(found) >= count and all(run["status"] != "started" for run in found)
            return found if is_complete else None

        return {run["name"]: run for run in self.wait(complete)}

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0, self.logs()
        self.log.close()
