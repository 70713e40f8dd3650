"""The command line itself: speed of help, lazy loading, aliases, one-line errors, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tests.cli.conftest import SPEC, call, make_run
from tests.crash.world import write_task
from tuneloop.cli.main import cli, commands
from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.files import read_json, write_json
from tuneloop.core.layout import Home
from tuneloop.graph.lifecycle.lock import hold_lock
from tuneloop.tools.runs.manifest import FORMAT

HEAVY = (
    "langgraph",
    "langchain_core",
    "torch",
    "fastmcp",
    "mcp",
    "pydantic",
    "rich",
    "matplotlib",
)


@pytest.fixture(autouse=True)
def nothing_may_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is refused too late would build engines for minutes."""

    def driven(*args: object, **kwargs: object) -> None:
        raise AssertionError("the run was started")

    monkeypatch.setattr("tuneloop.cli.drive.drive", driven)


def one_line(result: Result, code: int = 2) -> str:
    assert result.exit_code == code, result.output
    assert result.stderr.startswith("tuneloop: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def test_help_is_fast_and_imports_nothing_heavy() -> None:
    code = (
        "import sys, resource\nsys.argv = ['tuneloop', '--help']\nfrom tuneloop.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "use = resource.getrusage(resource.RUSAGE_SELF)\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules], round(use.ru_utime + use.ru_stime, 3), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded, cpu = done.stderr.rsplit(" ", 1)
    assert loaded == "[]"
    assert float(cpu) <= 0.3
    assert "tuneloop run --benchmark wordproblems" in done.stdout


@pytest.mark.parametrize("words", ["run --help", "list runs"])
def test_commands_import_no_event_loop_and_no_yaml_reader_that_they_do_not_need(words: str, tmp_path: Path) -> None:
    code = (
        f"import sys\nsys.argv = ['tuneloop', *{words.split()!r}]\nfrom tuneloop.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print([m for m in ('asyncio', 'yaml') if m in sys.modules], file=sys.stderr)"
    )
    env = {**os.environ, "FT_FILE_PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert done.stderr.strip() == "[]"


def every_command() -> Iterator[tuple[str, click.Command]]:
    """Commands and their own commands, with their words."""
    with click.Context(cli) as ctx:
        for name in commands():
            command = cli.get_command(ctx, name)
            assert command is not None
            yield name, command
            if isinstance(command, click.Group):
                yield from ((f"{name} {part}", own) for part, own in command.commands.items())


EVERY = dict(every_command())


@pytest.mark.parametrize("words", EVERY)
def test_every_help_has_examples_of_its_own(words: str) -> None:
    said = EVERY[words].epilog or ""
    assert [line for line in said.splitlines() if f"tuneloop {words}" in line], said
    assert "\\" not in call(*words.split(), "--help").output


@pytest.mark.parametrize("words", EVERY)
def test_every_help_tells_defaults(words: str) -> None:
    for option in EVERY[words].params:
        if isinstance(option, click.Option) and not (
            option.is_flag or option.required or option.hidden or option.multiple
        ):
            told = "default" in (option.help or "") or option.default is not None
            assert told or option.name in (
                "repeat",
                "against",
                "endpoint",
                "experiment",
                "owner",
                "older",
                "out",
                "tokenizer",
            )


@pytest.mark.parametrize("words", ["", *(name for name, found in EVERY.items() if isinstance(found, click.Group))])
def test_a_group_alone_prints_its_help_in_lines(words: str) -> None:
    result = call(*words.split())
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("Usage:") and "\nCommands:\n" in result.stdout
    table = result.stdout.partition("\nCommands:\n")[2].partition("Example")[0]
    assert "..." not in table, "a sentence is cut"


def test_help_of_a_command_by_name(home: Home) -> None:
    assert call("help", "params", "check").stdout == call("params", "check", "--help").stdout
    assert call("help").stdout == call("--help").stdout
    assert "did you mean 'status'?" in one_line(call("help", "statsu"))


def test_version_has_a_short_option() -> None:
    assert call("-V").stdout == call("--version").stdout != ""


@pytest.mark.parametrize("args", [("--no-color", "list", "models"), ("list", "models", "--no-color")])
def test_colour_is_left_out_where_asked(monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...]) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    assert call(*args).exit_code == 0
    assert os.environ["NO_COLOR"] == "1"


def test_help_lists_every_command_with_a_sentence() -> None:
    text = call("--help").output
    assert list(commands())[:4] == ["run", "resume", "status", "watch"]
    for name, sentence in commands().items():
        assert name in text
        assert len(sentence) > 10


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_command_helps(name: str) -> None:
    result = call(name, "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.output


@pytest.mark.parametrize("alias", ["llm_finetune", "llm-finetune"])
def test_the_seeds_command_is_run(alias: str) -> None:
    assert "--benchmark-description" in call(alias, "--help").output


def test_a_misspelt_command_gets_a_suggestion(home: Home) -> None:
    assert "did you mean 'status'?" in one_line(call("statsu"))


@pytest.mark.parametrize(
    "args",
    [
        ("run", "--loop-n", "-1"),
        ("run", "--loop_n", "0"),
        ("run", "--timeout", "soon"),
        ("run", "--no-such-option"),
        ("run", "--sandbox", "podman"),
        ("run", "--benchmark", "wordproblms", "--base-model", "tiny"),
        ("run", "--base-model", "./missing"),
        ("run", "--dataset", "./missing.csv"),
        ("run", "--repeat", "nothing"),
        ("run", "--validation-share", "0"),
        ("run", "--validation-share", "-0.5"),
        ("run", "--validation-share", "1.01"),
        ("run", "--validation-share", "nan"),
        ("run", "--validation-share", "x"),
        ("run", "--max-regression", "mmlu"),
        ("run", "--seeds", "0"),
        ("status", "nothing"),
        ("resume",),
        ("stop",),
        ("report",),
        ("watch",),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(home: Home, args: tuple[str, ...]) -> None:
    one_line(call(*args))
    if args[0] == "run" and "--benchmark" not in args:
        one_line(call(*args, "--benchmark", "wordproblems"))
    assert not home.root.exists()


@pytest.mark.parametrize("split", ["validation", "test"])
def test_guard_without_items_is_one_line(home: Home, split: str) -> None:
    task = write_task(Path("task").absolute())
    (file,) = (path for path in task.rglob(f"{split}.jsonl") if "data" not in path.parts)
    file.write_text("")
    said = one_line(
        call("run", "--benchmark", "wordproblems", "--base-model", "tiny", "--max-regression", f"{task}:-2")
    )
    assert f"{split}.jsonl: no items" in said


def test_a_malformed_dotenv_names_its_line(home: Home) -> None:
    Path(".env").write_text("FT_BASE_MODEL=tiny\nthis is no line = \n")
    assert ".env:2" in one_line(call("run"))


def test_a_bad_value_names_its_variable(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FT_UPPER_DATA_SIZE_LIMIT", "-3")
    assert "FT_UPPER_DATA_SIZE_LIMIT='-3'" in one_line(call("run"))


@pytest.mark.parametrize("content", ["", "\n", "{broken", "[]", "\x00\xff"])
def test_an_empty_or_unreadable_dataset_is_refused(home: Home, content: str) -> None:
    Path("rows.jsonl").write_text(content)
    assert "rows.jsonl" in one_line(call("run", "--benchmark", "wordproblems", "--dataset", "rows.jsonl"))
    assert not home.root.exists()


def test_a_home_that_cannot_be_written(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("file").write_text("")
    monkeypatch.setenv("FT_FILE_PATH", str(Path("file/below").absolute()))
    assert "FT_FILE_PATH" in one_line(call("run", "--benchmark", "wordproblems"))


@pytest.mark.parametrize("network_home", ["FUSE"], indirect=True)
def test_a_home_on_a_network_is_told_with_what_is_slow(network_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNELOOP_STATE_DIR", "")  # set by the option
    said = " ".join(call("doctor").output.split())
    assert "network file system (FUSE)" in said
    assert "without --state-dir DIR" in said
    assert "set TUNELOOP_STATE_DIR to a local folder" in one_line(
        call("--state-dir", str(network_home / "state"), "list")
    )


def test_the_same_id_twice(home: Home) -> None:
    make_run(home, "r1")
    assert "r1" in one_line(call("run", "--benchmark", "wordproblems", "--run-id", "r1", "--seed", "9"))


def test_lists(home: Home) -> None:
    cards = {row["name"]: row for row in json.loads(call("list", "benchmarks", "--json").output)}
    told = {"licence", "source", "metric", "metrics", "needs", "unavailable", "parts", "items", "description"}
    assert all(told <= card.keys() for card in cards.values())
    assert cards["wordproblems"]["items"] is None, "not made yet"
    assert "wordproblems" in call("list", "benchmarks").output
    protocols = next(text for text in call("list", "benchmarks").output.split("bioprobench_") if text.startswith("gen"))
    assert "Without meteor" in protocols and "[ANSWER_START]" in cards["bioprobench_gen"]["description"]
    assert json.loads(call("list", "datasets", "--json").output)[0]["licence"]
    assert "wordproblems" in call("list", "datasets").output
    assert "tiny" in call("list", "models").output
    assert json.loads(call("list", "runs", "--json").output) == []
    make_run(home, "r1")
    with hold_lock(make_run(home, "r2").lock):
        rows = {row["name"]: row["state"] for row in json.loads(call("list", "runs", "--json").output)}
    assert rows == {"r1": "new", "r2": "running"}


def test_the_newest_run_is_meant(home: Home) -> None:
    for second, name in enumerate(("old", "new", "middle")):
        spec = make_run(home, name).spec
        os.utime(spec, (second, second if name != "new" else 99))
    assert json.loads(call("status", "--json").output)["run_id"] == "new"
    assert "did you mean 'middle'?" in one_line(call("status", "midle"))


def test_status_of_a_fresh_run(home: Home) -> None:
    make_run(home, "r1")
    told = json.loads(call("status", "r1", "--json").output)
    assert (told["state"], told["baseline"], told["experiments"], told["best"]) == ("new", None, [], None)
    assert "wordproblems" in call("status").output


OLDER = {
    "no format": SPEC.partition("\n")[2],
    "format 1": SPEC.replace(f"format: {FORMAT}", "format: 1"),
}


@pytest.mark.parametrize("spec", OLDER.values(), ids=list(OLDER))
@pytest.mark.parametrize(
    "args",
    [
        ("resume", "r1"),
        ("status", "r1"),
        ("status",),
        ("watch", "r1"),
        ("report", "r1"),
        ("stop", "r1"),
        ("chat", "r1", "status"),
        ("fork", "r1", "--at", "0"),
        ("fork", "r1", "--at", "0", "--after-test"),
        ("run", "--repeat", "r1"),
        ("replay", "r1"),
    ],
    ids=" ".join,
)
def test_run_of_an_older_version_is_refused(home: Home, args: tuple[str, ...], spec: str) -> None:
    run = make_run(home, "r1")
    run.spec.write_text(f"version: 0.0.9\n{spec}")
    before = sorted(home.root.rglob("*"))
    said = one_line(call(*args))
    assert "run r1 was made by an older tuneloop (0.0.9)" in said
    assert "start it anew" in said
    assert sorted(home.root.rglob("*")) == before


def test_run_of_an_older_version_is_listed(home: Home) -> None:
    make_run(home, "r1").spec.write_text(OLDER["no format"])
    (row,) = json.loads(call("list", "runs", "--json").output)
    assert row["state"] == "unreadable"
    assert "older tuneloop" in row["benchmark"]


def test_stop_leaves_one_whole_message(home: Home) -> None:
    run = make_run(home, "r1")
    assert "nobody works on run r1" in one_line(call("stop", "r1"))
    assert not run.inbox.exists()
    with hold_lock(run.lock):
        result = call("stop")
    assert result.exit_code == 0
    assert "tuneloop resume r1" in result.output
    messages = list(run.inbox.iterdir())
    assert [read_json(m) for m in messages] == [{"do": "pause"}]


def test_watch_ends_when_the_run_is_idle(home: Home) -> None:
    run = make_run(home, "r1")
    run.events.write_text('{"kind":"run_paused","reason":"asked"}\n{"kind":"torn')
    result = call("watch")
    assert result.exit_code == 0
    assert "paused: asked" in result.stdout
    assert "tuneloop resume r1" in result.stderr


def test_report_prints_what_was_written(home: Home) -> None:
    run = make_run(home, "r1")
    assert "no report yet" in one_line(call("report"))
    run.report.write_text("# result\n")
    write_json(run.report_json, {"run_id": "r1"})
    assert call("report").stdout.strip() == "# result"
    assert json.loads(call("report", "r1", "--json").stdout) == {"run_id": "r1"}
    assert "finished" in call("resume", "r1").stderr


@pytest.mark.parametrize(
    ("error", "code", "resumable"),
    [
        (KeyboardInterrupt(), 130, True),
        (InfrastructureError("disk is full"), 1, True),
        (InvalidRequestError("locked"), 2, False),
    ],
)
def test_how_a_drive_can_end(
    home: Home, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, resumable: bool
) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise error

    monkeypatch.setattr("tuneloop.cli.drive.drive", broken)
    make_run(home, "r1")
    result = call("resume")
    assert result.exit_code == code
    assert ("to go on: tuneloop resume r1" in result.stderr) is resumable
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    "words", [["params", "check", "/tmp/\0x"], ["batch", "/tmp/\0x"], ["status", "a\0b"], ["a\0b"]]
)
def test_a_nul_in_a_word_is_one_line(words: list[str]) -> None:
    found = CliRunner().invoke(cli, words)
    assert (found.exit_code, found.stderr.count("\n")) == (2, 1)
    assert "NUL character" in found.stderr
