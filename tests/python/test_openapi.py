"""schemathesis walks the OpenAPI document and asks the server everything it allows, and much that it does not."""

import json
import os
import pathlib
import subprocess
import sys

# The walk has some forty operations, and its time is bounded below: with more examples the last ones would see none.
EXAMPLES = 10
# One worker: with several, CPython 3.11 sometimes ends one with "AST constructor recursion depth mismatch"
# (python/cpython#106905), because its parser keeps one counter for all threads.
WORKERS = 1
# Where events go in.
EVENTS = "^(/api/report|/v1/runs/ingest|/v1/traces|/v1/logs)$"


def run_schemathesis(server, tmp_path, secret, seconds, *arguments):
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
        "--workers",
        str(WORKERS),
        "--seed",
        os.environ.get("SCHEMATHESIS_SEED", "1"),
        "--suppress-health-check",
        "all",
        *arguments,
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=seconds * 5)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-30000:] + done.stderr[-5000:]
    assert server.get("/health/ready").ok


def test_the_server_keeps_to_its_document(own_server, tmp_path):
    # A run under the id that the walk tries first, so that it meets one.
    own_server.report({"events": [{"name": "agent_call", "run_id": "0", "timestamp": "2026-11-20T10:00:00.000Z"}]})
    own_server.runs(1)
    # Two have a test of their own: the walk would revoke the token it walks with, and signs in with words it made up.
    # What takes events takes no tokens, and has a test of its own too.
    arguments = ["--exclude-path-regex", EVENTS, "--exclude-operation-id", "revoke_token"]
    arguments += ["--exclude-operation-id", "sign_in"]
    run_schemathesis(own_server, tmp_path, own_server.token, 80, *arguments)
    # Otherwise the walk was in front of a closed door from some step on.
    assert own_server.get("/api/internal/tokens", secret=own_server.token).ok


def test_reporting_keeps_to_its_document(own_server, tmp_path):
    run_schemathesis(own_server, tmp_path, own_server.key, 30, "--include-path-regex", EVENTS)
    assert own_server.report({"events": []}).ok


def test_revoking_tokens_and_signing_in_keep_to_their_document(own_server, tmp_path):
    arguments = ["--include-operation-id", "revoke_token", "--include-operation-id", "sign_in"]
    run_schemathesis(own_server, tmp_path, own_server.token, 10, *arguments, "--phases", "coverage,fuzzing")
