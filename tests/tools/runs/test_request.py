"""A request becomes options that the command line has, and means there what was asked."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from tuneloop.cli.main import cli
from tuneloop.core.errors import InvalidRequestError, ToolError
from tuneloop.core.files import write_json
from tuneloop.core.layout import Home
from tuneloop.core.settings import Settings
from tuneloop.tools.runs.request import OpenFolders, RunRequest, check_open
from tuneloop.tools.runs.spec import build_spec, command_words

WHOLE = RunRequest(
    run_id="mine",
    benchmark="gsm8k",
    also=("arc",),
    benchmark_description="--answer with a number, please",
    base_model="org/model",
    datasets=("org/data", "wordproblems"),
    upper_data_size_limit=500,
    refuse_overlaps=True,
    loop_n=3,
    patience=4,
    parallel=2,
    timeout="90m",
    max_tokens=200_000,
    max_cost=2.5,
    max_gpu_hours=8,
    approve="plan",
    on_stop="ask",
    guards=("mbpp:-2",),
    seeds=2,
    seed=7,
    validation_share=0.1,
)


def given_by(home: Path) -> tuple[OpenFolders, Settings]:
    return OpenFolders(Home(home)), Settings(FT_FILE_PATH=home)


def options(request: RunRequest) -> dict[str, object]:
    """As the command line reads them."""
    with click.Context(cli, token_normalize_func=cli.context_settings["token_normalize_func"]) as ctx:
        command = cli.get_command(ctx, "run")
        assert command is not None
        return command.make_context(
            "run", list(command_words({"run_id": request.run_id, **request.options()})), parent=ctx
        ).params


def test_a_request_is_the_spec_that_it_says(tmp_path: Path) -> None:
    given = options(WHOLE.checked(*given_by(tmp_path)))
    assert given.pop("run_id") == "mine"
    assert given.pop("allow_unsandboxed") is False
    for name in ("step_n", "repeat", "as_json", "dry_run"):
        given.pop(name)
    spec = build_spec(given, Settings(FT_FILE_PATH=tmp_path))
    assert (spec.benchmark, spec.base_model, spec.datasets) == ("gsm8k", "org/model", ("org/data", "wordproblems"))
    assert (spec.loop_n, spec.timeout, spec.seed, spec.seeds) == (3, 5400.0, 7, 2)
    assert (spec.max_tokens, spec.max_cost, spec.max_gpu_hours, spec.approve) == (200_000, 2.5, 8, "plan")
    assert (spec.on_stop, spec.validation_share, spec.patience, spec.parallel) == ("ask", 0.1, 4, 2)
    assert (spec.upper_data_size_limit, spec.refuse_overlaps) == (500, True)
    assert spec.also
    assert [str(guard) for guard in spec.guards] == ["mbpp:-2"]
    assert spec.benchmark_description == "--answer with a number, please"


def test_what_is_not_said_is_left_to_the_settings(tmp_path: Path) -> None:
    asked = RunRequest(run_id="mine", benchmark="wordproblems", loop_n=1).checked(
        OpenFolders(Home(tmp_path)), Settings(FT_FILE_PATH=tmp_path)
    )
    assert asked.options() == {"benchmark": "wordproblems", "loop_n": 1}


@pytest.mark.parametrize("timeout", ["", "0", "unlimited"])
def test_a_run_without_an_end_is_refused(tmp_path: Path, timeout: str) -> None:
    with pytest.raises(ToolError, match="nothing would end this run"):
        RunRequest(run_id="a", benchmark="gsm8k", base_model="tiny", timeout=timeout).checked(
            OpenFolders(Home(tmp_path)), Settings(FT_FILE_PATH=tmp_path)
        )


@pytest.mark.parametrize(("field", "value"), [("timeout", "soon"), ("guards", ("gsm8k",)), ("guards", ("gsm8k:-200",))])
def test_what_has_no_meaning_is_said(tmp_path: Path, field: str, value: object) -> None:
    asked = RunRequest.model_validate(
        {"run_id": "a", "benchmark": "gsm8k", "base_model": "tiny", "loop_n": 1, field: value}
    )
    with pytest.raises(InvalidRequestError, match="right is"):
        asked.checked(*given_by(tmp_path))


def test_a_data_set_of_the_owners_checkout_is_open(tmp_path: Path) -> None:
    write_json(tmp_path / "checkout" / "data" / "identity.json", [])
    settings = Settings(
        FT_FILE_PATH=tmp_path / "home", FT_DATASET="identity", LLAMA_FACTORY_PATH=str(tmp_path / "checkout")
    )
    spec = build_spec({"benchmark": "gsm8k", "base_model": "tiny"}, settings)
    assert spec.datasets == (str(tmp_path / "checkout" / "data" / "identity.json"),)
    check_open(spec, OpenFolders(settings.home), settings)
    other = settings.model_copy(update={"dataset": ()})
    with pytest.raises(ToolError, match="not open to you"):
        check_open(spec, OpenFolders(settings.home), other)


def test_flags_of_a_chat_become_flags() -> None:
    assert list(command_words({"refuse_overlaps": "yes", "loop_n": "3"})) == [
        "--refuse-overlaps",
        "--loop-n=3",
    ]
