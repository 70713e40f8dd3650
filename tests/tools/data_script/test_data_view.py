"""Scripts see what the user's directives leave, as links; the same directives make the same view."""

from __future__ import annotations

from pathlib import Path

from tuneloop.core.directive import Sources
from tuneloop.core.files import write_atomic
from tuneloop.core.layout import RunFolder
from tuneloop.tools.data_script.data_view import DataView, data_view, source_names


def seen(found: DataView) -> list[str]:
    """Files, through the links."""
    return sorted(p.relative_to(found.root).as_posix() for p in found.root.glob("*/**/*") if p.is_file())


def test_views(tmp_path: Path) -> None:
    for name in ("raw/a.jsonl", "raw/deep/b.csv", "extra/c.json", "one.jsonl"):
        write_atomic(tmp_path / name, "{}")
    datasets = {"raw": tmp_path / "raw", "extra": tmp_path / "extra", "one": tmp_path / "one.jsonl"}
    run = RunFolder(tmp_path / "run")
    assert source_names(datasets) == (
        "raw",
        "raw/a.jsonl",
        "raw/deep/b.csv",
        "extra",
        "extra/c.json",
        "one",
        "one/one.jsonl",
    )
    assert data_view(run, datasets, ()).root == run.root / "datasets"
    never = data_view(run, datasets, (Sources(never=("raw/a.jsonl", "extra")),))
    assert seen(never) == ["one/one.jsonl", "raw/deep/b.csv"]
    assert never.read == (str(tmp_path / "raw/deep/b.csv"), str(tmp_path / "one.jsonl"))
    assert data_view(run, datasets, (Sources(never=("raw/a.jsonl", "extra")),)) == never
    only = data_view(run, datasets, (Sources(only=("raw",)),))
    assert (only.root / "raw").is_symlink() and only.read == (str(tmp_path / "raw"),)
    assert only.key != never.key
