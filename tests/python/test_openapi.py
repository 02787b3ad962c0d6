"""schemathesis walks the OpenAPI document and asks the server everything it allows, and much that it does not."""

import json
import os
import pathlib
import subprocess
import sys

SECONDS = 150
EXAMPLES = 25


def run_schemathesis(server, tmp_path, secret, *arguments):
    document = server.get("/api/openapi.json")
    assert document.status_code == 200
    path = tmp_path / "openapi.json"
    path.write_text(json.dumps(document.json()))
    command = [
        pathlib.Path(sys.executable).parent / "schemathesis",
        "run",
        path,
        "--url",
        server.url,
        "--header",
        f"Authorization: Bearer {secret}",
        "--max-examples",
        str(EXAMPLES),
        "--max-time",
        str(SECONDS),
        "--request-timeout",
        "30",
        "--workers",
        "2",
        "--seed",
        os.environ.get("SCHEMATHESIS_SEED", "1"),
        "--suppress-health-check",
        "all",
        *arguments,
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS * 3)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-30000:] + done.stderr[-5000:]
    assert server.get("/health/ready").ok


def test_the_server_keeps_to_its_document(server, tmp_path):
    run_schemathesis(server, tmp_path, server.token, "--exclude-path", "/api/report")


def test_reporting_keeps_to_its_document(server, tmp_path):
    run_schemathesis(server, tmp_path, server.key, "--include-path", "/api/report")
