"""The images: the Dockerfile as a linter and a reader see it, and their files in a root of their own."""

import os
import pathlib
import re
import shlex
import signal
import socket
import subprocess
import time
import tomllib

import pytest
from conftest import BIN, DEPLOY, ROOT, python_tool, run, with_settings

DOCKERFILE = DEPLOY / "Dockerfile"
USER = "65532:65532"
READY_WITHIN_S = 60


class Stage:
    """One stage: its base and its instructions, continued lines joined."""

    def __init__(self, base):
        self.base = base
        self.instructions = []

    def all(self, name):
        return [rest for instruction, rest in self.instructions if instruction == name]

    def last(self, name):
        return self.all(name)[-1]


@pytest.fixture(scope="module")
def stages():
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE)
    text = re.sub(r"\\\n", " ", text)
    arguments, found, stage = {}, {}, None
    for line in filter(str.strip, text.splitlines()):
        name, rest = line.strip().split(maxsplit=1)
        if name == "ARG" and stage is None:
            key, value = rest.split("=", 1)
            arguments[key] = value
        elif name == "FROM":
            base, _, called = rest.partition(" AS ")
            base = re.sub(r"\$\{(\w+)\}", lambda match: arguments[match[1]], base)
            stage = found[called] = Stage(base)
        else:
            stage.instructions.append((name, rest))
    return found


@pytest.fixture(scope="module", params=["spindle", "spindle-standalone"])
def image(request, stages):
    return stages[request.param]


def test_the_linter_has_nothing_to_say():
    run(python_tool("hadolint"), "--strict-labels", "--failure-threshold", "style", DOCKERFILE)


def test_the_linter_can_find_something(tmp_path):
    bad = tmp_path / "Dockerfile"
    bad.write_text("FROM debian:latest\nRUN apt-get install curl\n")
    assert "DL3007" in run(python_tool("hadolint"), bad, ok=False).stdout


def test_bases_are_pinned_by_tag_and_the_compiler_is_the_pinned_one(stages):
    ours = set(stages) | {"scratch"}
    bases = {stage.base for stage in stages.values()} - ours
    assert all(re.fullmatch(r"[a-z/]+:\d+\.\d+\.\d+[a-z-]*", base) for base in bases), bases
    toolchain = tomllib.loads((ROOT / "rust-toolchain.toml").read_text())["toolchain"]["channel"]
    assert stages["build"].base.startswith(f"rust:{toolchain}-")
    assert f"RUSTUP_TOOLCHAIN={toolchain} " in stages["build"].last("ENV")


def test_the_build_takes_the_lock_files(stages):
    (build,) = [line for line in stages["build"].all("RUN") if "cargo build" in line]
    assert "cargo build --locked --release" in build
    assert any("npm ci " in line for line in stages["engine"].all("RUN"))


def test_the_program_holds_the_pages_that_are_built_beside_it(stages):
    assert any("npm ci " in line for line in stages["web"].all("RUN"))
    copied = stages["build"].all("COPY")
    assert copied.index("--from=web /web/dist/ web/dist/") > copied.index(". .")


def test_images_begin_empty_run_as_a_user_by_number_and_say_how_they_are(image, commands):
    assert image.base == "scratch"
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", image.last("USER"))
    assert image.last("EXPOSE") == "7070"
    assert image.last("ENTRYPOINT") == '["/usr/bin/spindle"]'
    check = image.last("HEALTHCHECK").split("CMD ", 1)[1]
    assert check == '["/usr/bin/spindle", "health"]' and "health" in commands
    assert image.last("CMD") in {'["--help"]', '["serve"]'} and "serve" in commands


def test_only_the_standalone_image_has_the_engine(stages):
    def copied(stage):
        return {re.search(r"--from=(\S+)", line)[1] for line in stage.all("COPY")}

    assert copied(stages["spindle"]) == {"files"}
    assert copied(stages["spindle-standalone"]) == {"files-standalone"}
    assert "libchdb" not in stages["files"].last("RUN")
    assert "libchdb" in stages["files-standalone"].last("RUN")


def test_the_settings_of_the_images_are_good(image, settings, accepts):
    given = dict(pair.split("=", 1) for pair in shlex.split(image.last("ENV")))
    assert set(given) <= settings
    assert accepts(given) == ""


def test_what_is_copied_from_the_repository_exists_and_reaches_the_builder(stages):
    kept = [line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")]
    assert all((ROOT / path).exists() for path in kept), kept
    for line in stages["engine"].all("COPY"):
        for path in line.split()[:-1]:
            assert (ROOT / path).is_file() and path in kept
    # Whatever the workspace is made of has to be there, and nothing else does.
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["members"]
    assert set(workspace) <= set(kept) and {"deploy/image", "web"} <= set(kept)


def lay_out(root, *libraries):
    """The files of an image, laid out by the script that the Dockerfile runs."""
    run(DEPLOY / "image" / "rootfs.sh", root, BIN, *libraries)
    os.chown(root / "var/lib/spindle", 65532, 65532)
    for made_by_the_engine in ["proc", "dev"]:
        (root / made_by_the_engine).mkdir()
    return root


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """The files of the standalone image."""
    (library,) = (DEPLOY / "engine" / "node_modules" / "@chdb").glob("lib-*/libchdb.so")
    root = lay_out(tmp_path_factory.mktemp("standalone") / "root", library)
    yield root
    (root / "usr/lib/spindle/libchdb.so").unlink()


def inside(root, *command):
    """The command line that runs something in that root as its user, with /proc and /dev as a container has them."""
    script = 'mount --bind /proc "$0/proc" && mount --bind /dev "$0/dev" && exec chroot --userspec "$1" "$0" /usr/bin/spindle "${@:2}"'
    return ["unshare", "--mount", "bash", "-c", script, str(root), USER, *command]


def test_the_files_of_the_image_are_enough_to_serve_with_the_engine_and_be_asked(root, stages):
    settings = dict(pair.split("=", 1) for pair in shlex.split(stages["spindle-standalone"].last("ENV")))
    environment = with_settings({**settings, "SPINDLE_SERVER__LISTEN": "127.0.0.1:0"})
    server = subprocess.Popen(inside(root, "serve"), env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        address = wait_for(root / "var/lib/spindle/address", server)
        asked = {**environment, "SPINDLE_SERVER__LISTEN": address.removeprefix("http://")}
        end = time.monotonic() + READY_WITHIN_S
        while run(*inside(root, "health", "--ready"), env=asked, ok=False).returncode != 0:
            assert time.monotonic() < end and server.poll() is None
            time.sleep(0.1)
        run(*inside(root, "health"), env=asked)
    finally:
        server.send_signal(signal.SIGTERM)
        words, _ = server.communicate(timeout=60)
    assert server.returncode == 0, words
    away = run(*inside(root, "health"), env=asked, ok=False)
    assert away.returncode != 0 and "nothing answers" in away.stderr


@pytest.mark.parametrize("tier", ["ingest", "processor", "query"])
def test_a_tier_in_its_image_is_alive_and_says_what_it_waits_for(tmp_path, stages, tier):
    root = lay_out(tmp_path / "root")
    settings = dict(pair.split("=", 1) for pair in shlex.split(stages["spindle"].last("ENV")))
    # Nothing listens on port 1: neither store is there.
    away = {"SPINDLE_KAFKA__BROKERS": "127.0.0.1:1", "SPINDLE_CLICKHOUSE__URL": "http://127.0.0.1:1"}
    environment = with_settings({**settings, **away, "SPINDLE_SERVER__LISTEN": f"127.0.0.1:{free_port()}"})
    process = subprocess.Popen(inside(root, tier), env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        end = time.monotonic() + READY_WITHIN_S
        while run(*inside(root, "health"), env=environment, ok=False).returncode != 0:
            assert time.monotonic() < end and process.poll() is None, process.stdout.read()
            time.sleep(0.1)
        waits = run(*inside(root, "health", "--ready"), env=environment, ok=False)
        assert waits.returncode == 1 and "not ready" in waits.stderr
    finally:
        process.send_signal(signal.SIGTERM)
        words, _ = process.communicate(timeout=60)
    assert process.returncode == 0, words


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def wait_for(path, server):
    end = time.monotonic() + READY_WITHIN_S
    while not (path.exists() and path.read_text().strip()):
        assert time.monotonic() < end and server.poll() is None, server.stdout.read()
        time.sleep(0.05)
    return path.read_text().strip()


def test_the_image_has_no_shell_and_nothing_anybody_may_write(root):
    programs = [path for path in root.rglob("*") if path.is_file() and path.parent.name in {"bin", "sbin"}]
    assert [path.name for path in programs] == ["spindle"]
    for path in pathlib.Path(root).rglob("*"):
        mode = path.stat().st_mode
        assert not mode & 0o002 or path == root / "tmp", path
