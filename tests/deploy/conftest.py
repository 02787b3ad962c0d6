"""What is checked of `deploy/`, and the tools it is checked with. No container engine is needed for any of it."""

import os
import pathlib
import re
import subprocess
import sys
import tomllib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
BIN = ROOT / os.environ.get("SPINDLE_BIN", "target/debug/spindle")
GO_TOOLS = ROOT / os.environ.get("DEPLOY_TOOLS", "target/deploy-tools")
# Read by the program, but no settings: they make the first credentials.
FIRST_CREDENTIALS = {"SPINDLE_API_KEY", "SPINDLE_ADMIN_TOKEN"}


def run(*command, ok=True, **options):
    """Runs a tool to its end; its words are the message when it fails."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120, **options)
    assert not ok or done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


def python_tool(name):
    """A command of the environment these tests run in."""
    return pathlib.Path(sys.executable).parent / name


def with_settings(environment):
    """The process environment with these settings and no others of Spindle."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SPINDLE_")}
    return {**clean, **environment}


@pytest.fixture(scope="session")
def settings():
    """Every setting as the variable that sets it."""
    tables = tomllib.loads((ROOT / "spindle.default.toml").read_text())
    return {f"SPINDLE_{table}__{key}".upper() for table, keys in tables.items() for key in keys}


@pytest.fixture(scope="session")
def commands():
    """The commands that `spindle --help` lists."""
    text = run(BIN, "--help").stdout
    listed = text.split("Commands:", 1)[1].split("Options:", 1)[0]
    return set(re.findall(r"^  ([a-z-]+) ", listed, re.MULTILINE))


@pytest.fixture(scope="session")
def accepts(tmp_path_factory):
    """Says what `spindle check-config` has against these settings; nothing if they are good."""
    empty = tmp_path_factory.mktemp("settings")

    def check(environment):
        done = run(BIN, "check-config", ok=False, cwd=empty, env=with_settings(environment))
        return "" if done.returncode == 0 else done.stderr

    return check
