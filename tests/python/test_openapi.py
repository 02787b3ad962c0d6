"""schemathesis walks the OpenAPI document and asks the server everything it allows, and much that it does not.

One process and tiers answer with the same handlers, so each phase of the walk is done once: what follows from the
document alone at one process, what is generated and what follows from answers at tiers.
The seed and the number of examples are fixed; the time is an upper bound for slow machines.
"""

import json
import os
import pathlib
import subprocess
import sys

from conftest import VISIBLE_WITHIN_S, Tiers

# The walk has some seventy operations.
EXAMPLES = 10
# One worker: with several, CPython 3.11 sometimes ends one with "AST constructor recursion depth mismatch"
# (python/cpython#106905), because its parser keeps one counter for all threads.
WORKERS = 1
# Where events go in.
EVENTS = "^(/api/report|/v1/runs/ingest|/v1/traces|/v1/logs|/api/public/(otel/v1/traces|ingestion|scores|projects|health))$"


def run_schemathesis(server, tmp_path, secret, seconds, *arguments, generated="fuzzing,stateful"):
    document = server.get("/api/openapi.json")
    assert document.status_code == 200
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps(document.json()))
    command = [
        pathlib.Path(sys.executable).parent / "schemathesis",
        "--config-file",
        pathlib.Path(__file__).parent / "schemathesis.toml",
        "run",
        path,
        "--url",
        server.url,
        "--header",
        f"Authorization: Bearer {secret}",
        "--max-examples",
        str(EXAMPLES),
        "--max-time",
        str(seconds),
        "--request-timeout",
        "30",
        "--phases",
        generated if isinstance(server, Tiers) else "examples,coverage",
        "--workers",
        str(WORKERS),
        "--seed",
        os.environ.get("SCHEMATHESIS_SEED", "1"),
        "--suppress-health-check",
        "all",
        *arguments,
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=seconds * 5 + 300)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-30000:] + done.stderr[-5000:]
    assert server.get("/health/ready").ok


# Before the other walks, which may revoke the key.
def test_reporting_keeps_to_its_document(own_server, tmp_path):
    run_schemathesis(own_server, tmp_path, own_server.key, 15, "--include-path-regex", EVENTS)
    assert own_server.report({"events": []}).ok


def test_the_server_keeps_to_its_document(own_server, tmp_path):
    # A run under the id that the walk tries first, so that it meets one.
    own_server.report({"events": [{"name": "agent_call", "run_id": "0", "timestamp": "2026-11-20T10:00:00.000Z"}]})
    own_server.wait(lambda: own_server.get("/api/run/0").ok, VISIBLE_WITHIN_S)
    # Two have a test of their own: the walk would revoke the token it walks with, and signs in with words it made up.
    # What takes events takes no tokens, and has a test of its own too.
    arguments = ["--exclude-path-regex", EVENTS, "--exclude-operation-id", "revoke_token"]
    arguments += ["--exclude-operation-id", "sign_in"]
    run_schemathesis(own_server, tmp_path, own_server.token, 40, *arguments)
    # Otherwise the walk was in front of a closed door from some step on.
    assert own_server.get("/api/internal/tokens", secret=own_server.token).ok


# Last, because it may revoke the token.
def test_revoking_tokens_and_signing_in_keep_to_their_document(own_server, tmp_path):
    arguments = ["--include-operation-id", "revoke_token", "--include-operation-id", "sign_in"]
    run_schemathesis(own_server, tmp_path, own_server.token, 5, *arguments, generated="fuzzing")
