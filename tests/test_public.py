"""The package's face: names that are promised, loaded when asked for, typed for who checks types."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import tuneloop

ROOT = Path(__file__).parent.parent


def python(code: str) -> str:
    p = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert p.returncode == 0, p.stderr
    return p.stdout


def test_import_alone_loads_nothing() -> None:
    """Not even typing: the supervisors of jobs import the package."""
    code = "import sys; before = set(sys.modules); import tuneloop; print(*sorted(set(sys.modules) - before))"
    assert python(code).split() == ["tuneloop"]


def test_a_spec_does_not_bring_the_graph() -> None:
    code = "import sys; from tuneloop import RunSpec, Settings, InvalidRequestError; print('langgraph' in sys.modules)"
    assert python(code).strip() == "False"


def test_every_name_is_there() -> None:
    for name in tuneloop.__all__:
        assert getattr(tuneloop, name) is not None
        assert name in dir(tuneloop)
    assert set(tuneloop.__all__) == set(tuneloop.PLACES)
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        tuneloop.nonsense  # noqa: B018


def test_the_page_names_them_all_and_no_others() -> None:
    text = (ROOT / "docs" / "python.md").read_text()
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    assert {name for cell in rows for name in re.findall(r"`(\w+)", cell)} == set(tuneloop.__all__)


USED = """\
from pathlib import Path

from tuneloop import InfrastructureError, InvalidRequestError, RunResult, RunSpec, Settings
from tuneloop import arun, astream, build_graph, load_settings, run, send, stream

spec = RunSpec(benchmark="wordproblems", base_model="tiny", loop_n=1, timeout=7200)


async def both() -> list[RunResult]:
    async for event in astream(spec, load_settings()):
        print(event.kind)
    return [await arun(spec, Settings(FT_FILE_PATH=Path("/data")), name="mine")]


try:
    result = run(spec, steps=3)
    best: Path | None = result.best
    scores = [each.score.value for each in result.journal.experiments if each.score]
    kinds: list[str] = [event.kind for event in stream("mine")]
    build_graph(load_settings()).compile()
    reveal_type(result.report)
except (InvalidRequestError, InfrastructureError):
    raise
run(1)
"""


@pytest.mark.slow  # mypy reads everything
def test_types_are_seen_by_a_checker_elsewhere(tmp_path: Path) -> None:
    """A user's own file, in his own folder: nothing is wrong but what he does wrong."""
    (tmp_path / "user.py").write_text(USED)
    argv = (sys.executable, "-m", "mypy", "--strict", "user.py")
    p = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    told = [line for line in p.stdout.splitlines() if line.startswith("user.py")]
    assert len(told) == 2, p.stdout + p.stderr
    assert re.search(r'Revealed type is "(builtins\.)?dict\[(builtins\.)?str, Any\] \| None"', told[0]), told
    assert 'error: Argument 1 to "run" has incompatible type "int"' in told[1], told
