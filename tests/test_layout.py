from __future__ import annotations

import ast
import graphlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import tuneloop

ROOT = Path(__file__).parent.parent
FLOORS = ("core", "cli", "ui", "graph", "agents", "mcp_servers", "tools", "sandboxes", "prompts", "engines")


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


def modules() -> dict[str, Path]:
    """Every module of the package but those that run inside engines."""
    found = {}
    for floor in (ROOT / name for name in FLOORS if name != "engines"):
        for file in floor.rglob("*.py"):
            parts = file.relative_to(ROOT).with_suffix("").parts
            found[".".join(("tuneloop", *parts)).removesuffix(".__init__")] = file
    return found


def imports(file: Path, known: set[str]) -> Iterator[str]:
    """What a module imports of `known`, inside functions and for types too."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                yield submodule if submodule in known else node.module


def test_no_import_cycle_lazy_imports_and_those_for_types_included() -> None:
    known = modules()
    graph = {name: {*imports(file, set(known))} & set(known) - {name} for name, file in known.items()}
    assert graph["tuneloop.graph.build"] and graph["tuneloop.tools.jobs.run_tools"]
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, which names the modules


def test_run_specs_have_one_builder_and_one_reader() -> None:
    made = re.compile(r"\bRunSpec(\.model_validate)?\(|\b(checked|read_model)\(.*\bRunSpec\b")
    found = [name for name, file in modules().items() if made.search(file.read_text())]
    assert sorted(found) == ["tuneloop.core.run_spec", "tuneloop.tools.runs.manifest", "tuneloop.tools.runs.spec"]


def test_only_entry_points_load_settings() -> None:
    from_python = {"graph.lifecycle.api", "graph.lifecycle.batch"}
    servers = {"graph.server.app", "graph.server.web", "mcp_servers.main"}
    entries = {"core.settings", *from_python, "tools.embedded.make_tiny", *servers}
    found = {name.removeprefix("tuneloop.") for name, file in modules().items() if "load_settings" in file.read_text()}
    assert {name for name in found if not name.startswith("cli.")} == entries


def test_nodes_do_not_parse_configs_themselves() -> None:
    found = [name for name, file in modules().items() if re.search(r"\bparse_config\(", file.read_text())]
    checks = ["config_text", "check", "folders", "releases"]
    others = [
        "tuneloop.mcp_servers.params",
        "tuneloop.cli.params_views",
        "tuneloop.tools.matrix.configs",
        "tuneloop.tools.training.methods",
    ]
    assert sorted(found) == sorted([*(f"tuneloop.tools.config.{name}" for name in checks), *others])
