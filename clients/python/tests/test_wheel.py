"""The wheel: it can be built with the pinned tools, installed into an empty environment, and used and typed there."""

import email
import pathlib
import subprocess
import sys
import tarfile
import venv
import zipfile

import spindle_client

PROJECT = pathlib.Path(__file__).resolve().parents[1]
REPOSITORY = PROJECT.parents[1]
USE = """
import importlib.metadata
import sys
import spindle_client, spindle_client.integrations.openai, spindle_client.integrations.anthropic
assert "site-packages" in spindle_client.__file__
assert importlib.metadata.version("spindle-client") == spindle_client.__version__
@spindle_client.tool
def double(number: int) -> int:
    return 2 * number
assert double(4) == 8
others = {name.split(".")[0] for name in sys.modules} & {"openai", "anthropic", "langchain_core", "pydantic"}
assert not others, others
"""
TYPED = """
import spindle_client as spindle

@spindle.tool
def double(number: int) -> int:
    return 2 * number

@spindle.llm("ask", model="m")
async def ask(question: str) -> str:
    return question

with spindle.agent("a", input=1) as run:
    run.output = double(4)
reveal_type(double)
reveal_type(ask)
"""


def command(*arguments, **options):
    done = subprocess.run([str(argument) for argument in arguments], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(folder, source):
    """The wheel of a folder or of an archive of the source."""
    command(sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", folder, source)
    (wheel,) = folder.glob("spindle_client-*.whl")
    return wheel


def metadata(wheel):
    """What a registry shows of it, and its files."""
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    return email.message_from_bytes(archive.read(name)), archive


def test_the_wheel_has_what_a_registry_shows(tmp_path):
    said, archive = metadata(build(tmp_path, PROJECT))
    assert (said["Name"], said["Version"]) == ("spindle-client", spindle_client.__version__)
    assert said["License-Expression"] == "Apache-2.0" and said["Requires-Python"] == ">=3.9"
    assert said["Author"] and said["Summary"] and said["Keywords"]
    assert "Typing :: Typed" in said.get_all("Classifier")
    assert said["Description-Content-Type"] == "text/markdown" and said.get_payload().startswith("# spindle-client")
    assert said.get_all("Requires-Dist") is None
    (license_file,) = (name for name in archive.namelist() if name.endswith("/LICENSE"))
    assert archive.read(license_file) == (REPOSITORY / "LICENSE").read_bytes()
    assert f"## {said['Version']}\n" in (PROJECT / "CHANGELOG.md").read_text()


def test_the_archive_of_the_source_gives_the_same_wheel(tmp_path):
    build_sdist = "import sys; from flit_core.buildapi import build_sdist; print(build_sdist(sys.argv[1]))"
    name = command(sys.executable, "-c", build_sdist, tmp_path, cwd=PROJECT).strip()
    with tarfile.open(tmp_path / name) as archive:
        names = {pathlib.PurePath(member).name for member in archive.getnames()}
    assert {"LICENSE", "CHANGELOG.md", "README.md", "pyproject.toml", "py.typed"} <= names
    for folder in ("direct", "archive"):
        (tmp_path / folder).mkdir()
    of_source = metadata(build(tmp_path / "direct", PROJECT))[1]
    of_archive = metadata(build(tmp_path / "archive", tmp_path / name))[1]
    assert of_archive.namelist() == of_source.namelist()
    assert all(of_archive.read(name) == of_source.read(name) for name in of_source.namelist())


def test_the_wheel_is_built_installed_and_used(tmp_path):
    wheel = build(tmp_path, PROJECT)
    names = zipfile.ZipFile(wheel).namelist()
    assert "spindle_client/py.typed" in names
    assert not [name for name in names if not name.startswith("spindle_client")]
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    site = command(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])").strip()
    command(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", site, wheel)
    (tmp_path / "use.py").write_text(USE)
    command(python, tmp_path / "use.py", env={"SPINDLE_ENABLED": "0"})
    (tmp_path / "typed.py").write_text(TYPED)
    cache = f"--cache-dir={tmp_path / 'mypy'}"
    said = command(
        sys.executable, "-m", "mypy", "--strict", cache, "--python-executable", python, tmp_path / "typed.py"
    )
    assert "def (number: int) -> int" in said
    assert "def (question: str) -> Coroutine[Any, Any, str]" in said.replace("typing.", "").replace("builtins.", "")
