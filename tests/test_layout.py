from __future__ import annotations

import tomllib
from pathlib import Path

import tuneloop

ROOT = Path(__file__).parent.parent
FLOORS = ("core", "cli", "graph", "agents", "mcp_servers", "tools", "sandboxes", "prompts", "engines")


def test_every_link_leads_to_its_folder() -> None:
    source = ROOT / "src" / "tuneloop"
    links = {p.name for p in source.iterdir() if p.is_symlink()}
    assert links == set(FLOORS), "this checkout has no symbolic links, or a folder was added without one"
    for name in FLOORS:
        assert (source / name).resolve() == ROOT / name


def test_wheel_and_sdist_name_every_floor() -> None:
    targets = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    for target in ("wheel", "sdist"):
        assert set(FLOORS) <= set(targets[target]["only-include"])
    assert targets["wheel"]["sources"] == {"src/tuneloop": "tuneloop", **{n: f"tuneloop/{n}" for n in FLOORS}}


def test_nothing_is_importable_twice() -> None:
    assert Path(tuneloop.__file__).parent == ROOT / "src" / "tuneloop"


def test_every_source_file_opens_with_a_sentence() -> None:
    for floor in FLOORS:
        for file in (ROOT / floor).rglob("*.py"):
            text = file.read_text()
            if len(text) > 300:
                assert text.startswith(('"""', 'r"""', "#!")), f"{file.relative_to(ROOT)} opens without a sentence"
