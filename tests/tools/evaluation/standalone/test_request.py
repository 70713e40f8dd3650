"""What is the same question, which words ask it on the command line, and which endpoints are open."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from tests.stand_in_engine import write_benchmark, write_model
from tuneloop.cli.eval import command
from tuneloop.core.errors import ToolError
from tuneloop.core.settings import Settings
from tuneloop.tools.evaluation.standalone.request import EvaluationRequest, check_endpoint_allowed


def settings(**more: object) -> Settings:
    return Settings.model_validate(more)


def test_the_same_question_has_one_name(tmp_path: Path) -> None:
    model, sums = write_model(tmp_path / "m"), write_benchmark(tmp_path / "sums")
    asked = EvaluationRequest(model=str(model), benchmark=(str(sums), "gsm8k"), limit=5)
    own = asked.id(settings())
    assert own == asked.model_copy().id(settings())
    assert own.startswith("m-")
    others = [asked.model_copy(update=more).id(settings()) for more in ({"limit": 6}, {"seed": 2}, {"top_p": 0.5})]
    judged = asked.id(settings(FT_JUDGE_MODEL="j"))
    (sums / "validation.jsonl").write_text("{}\n")
    written = asked.id(settings())
    (model / "config.json").write_text("{}")
    assert len({own, *others, judged, written, asked.id(settings())}) == 7


def test_the_command_line_understands_it() -> None:
    given = {"base_model": "-b", "endpoint": "http://127.0.0.1/v1", "name": "n", "limit": 3, "max_out_len": 4}
    given |= {"max_seq_len": 5, "temperature": 0.5, "top_p": 0.25, "batch_size": 2, "seed": 0}
    asked = EvaluationRequest.model_validate({"model": "--json", "benchmark": ("a", "b"), **given})
    with click.Context(command) as ctx:
        found = command.make_context("eval", [*asked.options()], parent=ctx).params
    assert (found["named"], found["benchmarks"], found["as_json"]) == ("--json", ("a", "b"), False)
    assert {name: found[name] for name in given} == given


@pytest.mark.parametrize(
    ("endpoint", "opened"),
    [
        ("http://localhost:8000/v1", True),
        ("http://[::1]:8000", True),
        ("https://models.example/v1", True),
        ("https://models.example:444/v1", False),
        ("http://models.example/v1", False),
        ("https://models.example@evil.example/v1", False),
        ("https://models.example.evil.example/v1", False),
        ("http://[", False),
        ("localhost:8000", False),
    ],
)
def test_only_endpoints_that_may_have_the_key_are_open(endpoint: str, opened: bool) -> None:
    told = settings(TUNELOOP_EVAL_API_BASE="https://models.example/v1")
    if opened:
        check_endpoint_allowed(endpoint, told)
        return
    with pytest.raises(ToolError, match=r"is not open to you|is no address"):
        check_endpoint_allowed(endpoint, told)
