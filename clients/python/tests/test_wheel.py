"""The wheel: it can be built with the pinned tools, installed into an empty environment, and used and typed there."""

import pathlib
import subprocess
import sys
import venv
import zipfile

PROJECT = pathlib.Path(__file__).resolve().parents[1]
USE = """
import sys
import spindle_client, spindle_client.integrations.openai, spindle_client.integrations.anthropic
assert "site-packages" in spindle_client.__file__
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


def test_the_wheel_is_built_installed_and_used(tmp_path):
    command(sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps", "-w", tmp_path, PROJECT)
    (wheel,) = tmp_path.glob("spindle_client-*.whl")
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
