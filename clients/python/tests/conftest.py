"""What the tests share: servers that behave and misbehave, programs run to their end, and the real binary."""

import os
import pathlib
import subprocess
import sys
import textwrap

import hypothesis
import pytest
from collector import Collector
from real_server import RealServer

import spindle_client

# The same examples every time, so that a failure is one of the code; and no folder of examples.
hypothesis.settings.register_profile("suite", max_examples=60, deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("suite")

SOURCES = str(pathlib.Path(__file__).resolve().parents[1] / "src")
ENDS_WITHIN_S = 60


@pytest.fixture
def collector():
    made = Collector()
    yield made
    made.stop()


@pytest.fixture
def make(collector):
    """Makes clients of the collector; they are closed, and have counted every event, at the end of the test."""
    made = []

    def make(**settings):
        client = spindle_client.Client(**{"url": collector.url, "api_key": "key-1", **settings})
        made.append(client)
        return client

    yield make
    collector.released.set()
    for client in made:
        client.close(timeout_s=10)
        stats = client.stats()
        assert stats.made == stats.pending + stats.sent + stats.dropped.total, stats
        assert stats.sent == stats.accepted + stats.rejected, stats
        assert stats.queued == stats.made - stats.dropped.queue_full - stats.dropped.closed, stats


@pytest.fixture
def program(collector, tmp_path):
    """Starts a program that reports to the collector; the client is configured by the environment."""
    started = []

    def start(text, **environment):
        path = tmp_path / f"program{len(started)}.py"
        path.write_text(textwrap.dedent(text))
        process = subprocess.Popen(
            [sys.executable, path],
            env={
                **os.environ,
                "PYTHONPATH": SOURCES,
                "PYTHONDONTWRITEBYTECODE": "1",
                # From 3.12 on Python warns of forks where there is a thread; that such forks go well is tested here.
                "PYTHONWARNINGS": "ignore::DeprecationWarning",
                "SPINDLE_URL": collector.url,
                "SPINDLE_API_KEY": "key-1",
                **environment,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def run(program):
    """Runs a program to its end; returns its exit status and what it wrote."""

    def run(text, **environment):
        process = program(text, **environment)
        output, _ = process.communicate(timeout=ENDS_WITHIN_S)
        return process.returncode, output

    return run


@pytest.fixture(scope="session")
def spindle(tmp_path_factory):
    """The real server, for all tests that need one."""
    server = RealServer(tmp_path_factory.mktemp("spindle"))
    yield server
    server.stop()
