"""What the documents promise is there: links, commands, options, keys, paths, the worked lines of docs/own_task.md."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest

from tuneloop.cli.main import ALIASES, cli, commands, expand_help
from tuneloop.core.commands import COMMANDS
from tuneloop.core.settings import Settings
from tuneloop.tools.benchmark_items import resolve
from tuneloop.tools.benchmark_items.user_folder import CATALOG, read_user_benchmark

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / f"{n}.md" for n in ("README", "CONTRIBUTING", "SECURITY", "THREAT_MODEL")),
    *sorted((ROOT / "docs").glob("*.md")),
]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


def calls() -> list[tuple[str, str]]:
    """Every `tuneloop …` line of the documents' shell blocks and of the commands' own examples."""
    found = [(page.name, line) for page in PAGES for block in blocks(page, "bash") for line in block.splitlines()]
    with click.Context(cli) as ctx:
        for name in commands():
            command = cli.get_command(ctx, name)
            assert command is not None
            found += [(f"{name} --help", line.strip()) for line in (command.epilog or "").splitlines()]
    found += [("--help", line.strip()) for line in (cli.epilog or "").splitlines()]
    return [(where, re.split(r"\s{2,}| \| | > |#", line)[0]) for where, line in found if line.startswith("tuneloop ")]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize(("where", "line"), calls())
def test_shown_calls_parse(where: str, line: str) -> None:
    name, *rest = expand_help(shlex.split(line)[1:])
    with click.Context(cli, token_normalize_func=cli.context_settings["token_normalize_func"]) as ctx:
        command = cli.get_command(ctx, name)
        assert command is not None
        with contextlib.suppress(click.exceptions.Exit):  # of --help
            command.make_context(name, rest, parent=ctx)


def test_the_readme_shows_every_command() -> None:
    text = (ROOT / "README.md").read_text()
    for name in commands():
        assert f"`tuneloop {name}" in text


def test_the_seeds_page_answers_for_every_variable_and_option() -> None:
    text = (ROOT / "docs" / "seeds.md").read_text()
    own = {"TUNELOOP_MCP_TOKEN", "TUNELOOP_MCP_RATE", "TUNELOOP_JOB_MEMORY", "TUNELOOP_STATE_DIR", "TUNELOOP_DEVICE"}
    own |= {"TUNELOOP_TRAIN_PROCESSES", "TUNELOOP_TRAIN_SHARDING", "TUNELOOP_TEAM_URL", "TUNELOOP_GPU_MEMORY"}
    own |= {"TUNELOOP_SLURM_CONTAINER"}
    own |= {"TUNELOOP_SLURM_OPTIONS", "TUNELOOP_RAY_RESOURCES", "TUNELOOP_NODE_FILES", "RAY_ADDRESS", "RAY_AUTH_TOKEN"}
    own |= {
        "TUNELOOP_UNSANDBOXED",
        "TUNELOOP_NOTIFY_URL",
        "TUNELOOP_NOTIFY_SECRET",
        "TUNELOOP_NOTIFY_COMMAND",
        "TUNELOOP_TRACKERS",
    }
    for field in Settings.model_fields.values():
        assert field.alias in own or f"`{field.alias}" in text
    with click.Context(cli) as ctx:
        run = cli.get_command(ctx, "run")
        assert run is not None
        for parameter in run.params:
            for option in parameter.opts:
                assert option in text
    for alias in ALIASES:
        assert alias in text


def test_the_report_page_names_every_key() -> None:
    path = ROOT / "tests" / "tools" / "report" / "test_report.py"
    spec = importlib.util.spec_from_file_location("report_keys", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (ROOT / "docs" / "report.md").read_text()
    for key in module.KEYS + module.MORE:
        assert f"`{key}`" in text


@pytest.mark.parametrize("name", [n for n in resolve.registered_names() if resolve.load_entry(n)[0].source])
def test_the_benchmarks_page_says_what_is_declared(name: str) -> None:
    """Names, sources, licences, limits and who asks a judge; the original's pages tell of other ones than its code has."""
    benchmark, text = resolve.load_entry(name)[0], (ROOT / "docs" / "benchmarks.md").read_text()
    assert benchmark.source
    short = name.removesuffix("_cot")
    assert f"`{short}`" in text
    for source in (benchmark.source, *benchmark.more):
        assert f"`{source.repo}`" in text, name
    assert benchmark.licence.partition(" (")[0] in text
    rows = [line for line in text.splitlines() if re.match(rf"\| (?:`\w+`(?:, )?)*`{short}`.*\| [\d /]+ \|$", line)]
    limits = [line.split("|")[-2].split("/") for line in rows]
    assert all(str(benchmark.max_new_tokens) in map(str.strip, found) for found in limits), (name, rows)
    asked = (ROOT / "docs" / "evaluation.md").read_text().partition("## A language model as judge")[2]
    assert (f"`{name}`" in asked.partition("\n## ")[0]) == benchmark.judge
    assert "judge" not in benchmark.description


def test_steering_page_lists_every_command() -> None:
    text = (ROOT / "docs" / "steering.md").read_text()
    usages = re.findall(r"^\| `(.+?)` \|", text, re.MULTILINE)
    assert [usage.replace("\\|", "|") for usage in usages] == [spec.usage for spec in COMMANDS]


def test_the_own_task_page_works_as_written(tmp_path: Path) -> None:
    page = ROOT / "docs" / "own_task.md"
    (declaration,), (item,) = blocks(page, "yaml"), blocks(page, "json")
    (tmp_path / "benchmark.yaml").write_text(declaration)
    row = json.loads(item)
    for split, shift in (("validation", 0), ("test", 1000)):
        rows = [{**row, "text": f"{i + shift} chairs", "answer": str(i)} for i in range(100)]
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    own = read_user_benchmark(tmp_path)
    assert (own.benchmark.answer, len(own.test)) == ("number", 100)
    keys = re.findall(r"^\| `(\w+)`(?:, `(\w+)`)? \|", page.read_text().split("| `answer` | Takes")[0], re.MULTILINE)
    assert {name for pair in keys for name in pair if name} == set(type(own.benchmark).model_fields) - CATALOG


def test_contributing_points_at_what_is_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    table = "\n".join(line for line in text.splitlines() if line.startswith("|"))
    for name in re.findall(r"`((?:\w+/)+[\w.]*)`", table):
        assert (ROOT / name).exists(), name


def test_make_shows_its_targets() -> None:
    shown = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in ["run", "test", "slow", "check", "bench", "soak", "clean", "help"]:
        assert f"make {target}" in shown


def test_server_and_graph_files_name_real_things() -> None:
    servers = json.loads((ROOT / ".mcp.json").read_text())["mcpServers"]
    assert [s["args"] for s in servers.values()] == [
        ["params"],
        ["data"],
        ["training"],
        ["evaluation", "--owner", "--folder", "."],
        ["runs", "--folder", "."],
    ]
    for server in servers.values():
        assert (ROOT / "mcp_servers" / f"{server['args'][0]}.py").is_file()
    graph = json.loads((ROOT / "langgraph.json").read_text())
    assert (ROOT / "graph/server/app.py").is_file()
    assert graph["graphs"]["tuneloop"]["path"] == "tuneloop.graph.server.app:graph"
    assert graph["http"]["cors"]["allow_origins"] == ["https://smith.langchain.com"], "what its page sends may vary"
