"""The package's face: names that are promised, loaded when asked for, typed for who checks types."""

from __future__ import annotations

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
    code = "import sys; from tuneloop import RunSpec, Settings, SetupError; print('langgraph' in sys.modules)"
    assert python(code).strip() == "False"


def test_every_name_is_there() -> None:
    for name in tuneloop.__all__:
        assert getattr(tuneloop, name) is not None
        assert name in dir(tuneloop)
    assert set(tuneloop.__all__) == set(tuneloop.PLACES)
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        tuneloop.nonsense  # noqa: B018


def test_the_page_names_them_all() -> None:
    text = (ROOT / "docs" / "python.md").read_text()
    for name in tuneloop.__all__:
        assert f"`{name}" in text, name


def test_types_are_seen_by_a_checker(tmp_path: Path) -> None:
    user = tmp_path / "user.py"
    user.write_text(
        "from tuneloop import RunSpec, build_graph, run\n"
        "reveal_type(run)\n"
        "reveal_type(run(RunSpec(benchmark='b', base_model='m')).report)\n"
        "build_graph().compile()\n"
        "run(1)\n"
    )
    argv = (sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(user))
    p = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert "RunResult" in p.stdout
    assert 'Revealed type is "builtins.dict[builtins.str, Any] | None"' in p.stdout or "dict[str, Any]" in p.stdout, (
        p.stdout
    )
    assert 'user.py:5: error: Argument 1 to "run" has incompatible type "int"' in p.stdout, p.stdout
