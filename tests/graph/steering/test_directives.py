"""Directives: refused, replaced, enforced and done; answers are true, and come within seconds while a job runs."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.prepared import prepared, wordproblems
from tests.tools.statistics.worlds import score
from tuneloop.core.directive import Bound, Directive, Focus, Keep, Sources, Use
from tuneloop.core.directive_log import append_row, open_directives, read_conversation, read_directives
from tuneloop.core.errors import RecipeError
from tuneloop.core.experiment import Critique, Experiment, Failure, Feedback, Forecast, Hypothesis, Training
from tuneloop.core.files import read_json, write_atomic, write_json
from tuneloop.core.job import JobStatus
from tuneloop.core.run_spec import RunSpec, Setup
from tuneloop.core.settings import Settings
from tuneloop.graph.agent_calls.brief import task_card
from tuneloop.graph.context import Context
from tuneloop.graph.nodes import validate
from tuneloop.graph.state import State
from tuneloop.graph.steering.compliance import check_epochs, complete_uses, config_violations, kept_values
from tuneloop.graph.steering.message_handler import handle
from tuneloop.graph.wait import wait_for_job
from tuneloop.tools.config.config_text import parse_config
from tuneloop.tools.engines import Engine
from tuneloop.tools.runs.messages import put
from tuneloop.tools.runs.signature import write_setup
from tuneloop.tools.statistics import compare

IDEA = Hypothesis(statement="Twice the steps.", reason="loss still falls", disproof="-", aspect="underfit")


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    """A prepared run of three planned experiments, two hours, some money and one data set of two files; the first is open."""
    settings = Settings.model_validate({"FT_FILE_PATH": tmp_path})
    raw = tmp_path / "raw"
    for name in ("textbook.jsonl", "web_scrape.jsonl"):
        write_atomic(raw / name, "{}\n")
    spec = RunSpec(benchmark="wordproblems", base_model="tiny", loop_n=3, timeout=7200, max_cost=5)
    found = wordproblems(settings.home)
    run = prepared(settings.home.run("r"), spec, found, tmp_path, datasets={"raw": str(raw)})
    return Context(run, settings, State(run_id="r", experiment=1, stage="research"))


def over(ctx: Context, number: int, text: str = "learning_rate: 2.0e-4\n", **changes: Any) -> None:
    """An experiment that is over."""
    write_atomic(ctx.run.experiment(number).config, text)
    values = {
        "hypothesis": IDEA,
        "feedback": Feedback(promoted=False, critique=Critique(explanation="", lesson="Less.")),
    }
    done = Experiment.model_validate({"number": number, **values, **changes})
    write_json(ctx.run.experiment(number).result, done.model_dump(mode="json"))


def send(ctx: Context, text: str) -> str:
    """The answer to a message."""
    return handle(ctx, f"{time.time_ns()}", text).text


def commands(ctx: Context) -> list[Any]:
    """Those that hold."""
    return [d.command for d in open_directives(ctx.run.directives)]


def test_unknown_source_is_refused_with_those_there_are(ctx: Context) -> None:
    assert "there are raw, raw/textbook.jsonl, raw/web_scrape.jsonl" in send(ctx, "sources only wikipedia")
    assert "did you mean raw/web_scrape.jsonl" in send(ctx, "sources not web_scrap")
    send(ctx, "sources not raw/web_scrape.jsonl")
    assert "no source would be left" in send(ctx, "sources not raw/textbook.jsonl")
    assert commands(ctx) == [Sources(never=("raw/web_scrape.jsonl",))]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("more 2h", "no limit of time"),
        ("more 2 experiments", "no limit of experiments"),
        ("more 1M tokens", "no limit of tokens"),
        ("more 2 GPU-hours", "no limit of GPU-hours"),
    ],
)
def test_limits_that_a_run_does_not_have_are_not_moved(ctx: Context, text: str, reason: str) -> None:
    ctx.run_tools.__dict__["spec"] = ctx.run_tools.spec.model_copy(update={"timeout": None, "loop_n": None})
    assert reason in send(ctx, text)
    assert commands(ctx) == []


def test_limits_are_not_taken_below_what_is_spent(ctx: Context) -> None:
    assert "`finish`" in send(ctx, "more -3h")
    assert "`finish`" in send(ctx, "more -3 experiments")
    send(ctx, "more $5")
    assert [command.money for command in commands(ctx)] == [5]


def test_newer_directive_replaces_the_older_one_on_the_same_parameter(ctx: Context) -> None:
    send(ctx, "limit learning_rate<=1e-4")
    assert "replaces directive 1" in send(ctx, "limit learning_rate<=3e-4")
    assert "replaces directive 2" in send(ctx, "use learning_rate=1e-3")
    assert "replaces directive 3" in send(ctx, "keep learning_rate")
    send(ctx, "ask launch")
    assert "replaces directive 5" in send(ctx, "ask never")
    assert [d.state for d in read_directives(ctx.run.directives)] == ["revoked"] * 3 + ["open", "revoked", "open"]


def test_same_directive_twice_holds_once_but_amounts_add_up(ctx: Context) -> None:
    send(ctx, "use lora_rank=32")
    assert "Directive 1 says so already" in send(ctx, "use lora_rank=32")
    send(ctx, "more 2h")
    send(ctx, "more 2h")
    assert len(read_directives(ctx.run.directives)) == 3


def test_impossible_combination_is_refused(ctx: Context, llamafactory: Engine, tiny: Path) -> None:
    here = with_engine(ctx, llamafactory, tiny)
    send(here, "use finetuning_type=full always")
    assert "no effect" in send(here, "use lora_rank=16")
    assert "quantization_bit" in send(here, "use quantization_bit=4")
    assert [command.parameter for command in commands(here)] == ["finetuning_type"]


def test_finished_run_takes_no_directive(ctx: Context) -> None:
    ctx.run.report_json.write_text("{}")
    for text in ("use lora_rank=32", "finish", "pause", "more 1h"):
        assert "tuneloop fork" in send(ctx, text)
        assert read_conversation(ctx.run.conversation)[-1].refused
    assert "experiments are over" in send(ctx, "status")
    assert commands(ctx) == []


def test_run_publishes_nothing_and_starts_no_other(ctx: Context) -> None:
    assert str(ctx.run.best) in send(ctx, "publish me/model")
    assert "tuneloop run" in send(ctx, "run benchmark=b base_model=m")
    assert "tuneloop chat r" in send(ctx, "edit")
    assert commands(ctx) == []


def test_config_that_violates_a_directive_is_refused(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    send(ctx, "limit learning_rate<=1e-4")
    write_atomic(ctx.folder.config, "lora_rank: 8\nlearning_rate: 2.0e-4\n")
    monkeypatch.setattr("tuneloop.tools.training.methods.check_recipe", lambda *_: [])
    with pytest.raises(RecipeError) as caught:
        validate.check_config_file(ctx)
    assert caught.value.culprit == "config"
    assert str(caught.value) == (
        "train.yaml:2 learning_rate: is 0.0002; write 0.0001; the user wants: 'limit learning_rate<=1e-4' (directive 1)"
    )
    write_atomic(ctx.folder.config, "lora_rank: 8\nlearning_rate: 1.0e-4\n")
    validate.check_config_file(ctx)


def test_a_grpo_recipe_keeps_to_what_grpo_knows(ctx: Context) -> None:
    send(ctx, "limit learning_rate<=1e-4")
    send(ctx, "limit cutoff_len<=64")
    send(ctx, "use lora_dropout 0.1")
    (told,) = config_violations(ctx, parse_config("stage: grpo\nlearning_rate: 2.0e-4\n"))
    assert "learning_rate: is 0.0002; write 0.0001" in told


def test_bound_on_epochs_holds_for_plans_in_steps(ctx: Context) -> None:
    send(ctx, "limit num_train_epochs<=3")
    found = Forecast(seconds=60, cpu=60, steps=100, epochs=6.0, seconds_per_step=0.6)
    with pytest.raises(RecipeError, match="write max_steps: 50"):
        check_epochs(ctx, found)
    check_epochs(ctx, found.model_copy(update={"epochs": 2.9}))


def test_kept_parameter_is_compared_with_the_best_experiment(ctx: Context) -> None:
    send(ctx, "keep learning_rate")
    assert config_violations(ctx, parse_config("learning_rate: 9.0e-4\n")) == []
    over(ctx, 1)
    assert commands(ctx) == [Keep(parameter="learning_rate")]
    assert kept_values(ctx) == {"learning_rate": 2e-4}
    assert "write 0.0002" in config_violations(ctx, parse_config("learning_rate: 9.0e-4\n"))[0]
    assert config_violations(ctx, parse_config("learning_rate: 2.0e-4\n")) == []


def test_use_is_done_when_an_experiment_was_made_with_it(ctx: Context) -> None:
    send(ctx, "use lora_rank=32")
    send(ctx, "use per_device_train_batch_size=4 always")
    write_atomic(ctx.folder.config, "lora_rank: 32\nper_device_train_batch_size: 4\n")
    complete_uses(ctx)
    complete_uses(ctx)
    assert commands(ctx) == [Use(parameter="per_device_train_batch_size", value=4, always=True)]


def test_a_config_of_before_does_not_do_what_was_asked_after_it(ctx: Context) -> None:
    write_atomic(ctx.folder.config, "lora_rank: 32\n")
    os.utime(ctx.folder.config, (time.time() - 60,) * 2)
    send(ctx, "use lora_rank=32")
    complete_uses(ctx)
    assert commands(ctx) == [Use(parameter="lora_rank", value=32)]
    write_atomic(ctx.folder.config, "lora_rank: 32\n")
    complete_uses(ctx)
    assert commands(ctx) == []


def test_answer_says_from_when_a_directive_holds(ctx: Context) -> None:
    assert "next experiment" in send(ctx, "use lora_rank=4")
    assert "offline policy cannot follow" in send(ctx, 'focus "shorter answers"')
    late = Context(ctx.run, ctx.settings, State(run_id="r", experiment=3, stage="train"))
    over(late, 1)
    over(late, 2)
    write_atomic(late.folder.config, "lora_rank: 8\n")
    assert "made for experiment 3 already" in (answer := send(late, "use lora_rank=64"))
    assert "No experiment is left for it" in answer
    send(late, "more 1 experiments")
    assert "No experiment is left" not in send(late, "use lora_rank=16")
    assert [type(c) for c in commands(ctx)][:1] == [Focus]


def test_scripts_see_only_the_sources_that_are_left(ctx: Context) -> None:
    assert ctx.run_tools.view.key == ""
    send(ctx, "sources only raw/textbook.jsonl")
    later = Context(ctx.run, ctx.settings, ctx.state)
    seen = later.run_tools.view
    assert [p.relative_to(seen.root).as_posix() for p in sorted(seen.root.rglob("*.jsonl"))] == ["raw/textbook.jsonl"]
    assert [Path(p).name for p in seen.read] == ["textbook.jsonl"]
    assert later.run_tools.view is seen and seen.key
    assert task_card(later).datasets == ("raw",)


def test_questions_are_answered_from_the_runs_files(ctx: Context) -> None:
    assert send(ctx, "why").endswith("No experiment has failed.")
    assert "not measured yet" in send(ctx, "best")
    assert "No train.yaml" in send(ctx, "config")
    over(ctx, 1, failure=Failure(node="train", culprit="config", text="loss is nan"))
    assert send(ctx, "why").endswith("Experiment 1 failed in train (config): loss is nan. Lesson: Less.")
    low, high = score([0.0] * 8 + [1.0] * 8), score([1.0] * 16)
    trained = Training(steps=9, seconds=1, rows=3, first_loss=2, last_loss=1.5, tail_slope=0, method="lora")
    turned_down = Feedback(
        promoted=False,
        comparison=compare(low, high),
        reasons=("no better than the incumbent: -50.0 points",),
        critique=Critique(explanation="", lesson=""),
    )
    over(ctx, 2, score=low, training=trained, feedback=turned_down)
    assert "measured and not promoted: 50.0" in (answer := send(ctx, "why 2"))
    assert "no better than the incumbent: -50.0 points" in answer and "loss 2.000 to 1.500" in answer
    assert "loss 2.000 to 1.500" in send(ctx, "loss")
    assert "1 of 3 experiments" in send(ctx, "budget")
    assert "left" in send(ctx, "time")
    write_json(ctx.folder.hypothesis, IDEA.model_dump(mode="json"))
    send(ctx, "use lora_rank=4")
    assert "Asked for next: lora_rank = 4" in send(ctx, "plan")
    assert send(ctx, "directives").splitlines()[2] == (
        "| 1 | open | lora_rank = 4 in the next experiment | use lora_rank=4 |"
    )
    assert "No experiment was promoted so far" in send(ctx, "status")
    assert "learning_rate: 2.0e-4" in send(ctx, "config")
    assert "raw/textbook.jsonl" in send(ctx, "data")
    assert "no report yet" in send(ctx, "report")
    assert "use PARAMETER=VALUE" in send(ctx, "help")
    assert "there is none" in send(ctx, "why 9")


def test_message_is_answered_while_a_job_runs(ctx: Context) -> None:
    asked: list[float] = []
    answered: list[float] = []
    calls = iter(range(10_000))

    def poll() -> JobStatus:
        number = next(calls)
        if number == 4:
            threading.Thread(target=say).start()
        lines = read_conversation(ctx.run.conversation)
        if len(lines) == 2 and not answered:
            answered.append(time.monotonic())
        return JobStatus(state="over" if answered else "running")

    def say() -> None:
        asked.append(time.monotonic())
        put(ctx.run.inbox, do="say", text="finish")

    wait_for_job(ctx, "train", poll, lambda: None)
    assert len(answered) == len(asked) == 1
    assert [d.command.kind for d in open_directives(ctx.run.directives)] == ["finish"]


def test_directive_on_a_parameter_that_is_unknown_here_is_no_violation(ctx: Context) -> None:
    append_row(ctx.run.directives, Directive(id="1", text="-", command=Bound(parameter="nonsense", at_most=1)))
    assert config_violations(ctx, parse_config("lora_rank: 3\n")) == []


def with_engine(ctx: Context, engine: Engine, model: Path) -> Context:
    """The run on a real model, checked against a real release."""
    write_setup(ctx.run, Setup.model_validate({**read_json(ctx.run.setup), "model_root": str(model)}))
    settings = ctx.settings.model_copy(update={"llama_factory_path": str(engine.folder)})
    return Context(ctx.run, settings, ctx.state)


@pytest.mark.parametrize(
    ("text", "parameter"),
    [
        ("use lora_rank=2.5", "lora_rank"),
        ("use lora_rnak=8", "lora_rank"),
        ("limit num_train_epochs>=-3", "num_train_epochs"),
        ("use quantization_bit=4", "quantization_bit"),
        ("use output_dir=/tmp/x", "output_dir"),
        ("use deepspeed=ds.json", "deepspeed"),
        ("use seed=7", "seed"),
    ],
)
def test_parameters_are_checked_against_the_installed_release(
    ctx: Context, llamafactory: Engine, tiny: Path, text: str, parameter: str
) -> None:
    here = with_engine(ctx, llamafactory, tiny)
    assert parameter in send(here, text)
    assert read_conversation(ctx.run.conversation)[-1].refused
    assert commands(here) == []


def test_other_names_of_a_parameter_and_defaults_are_known(ctx: Context, llamafactory: Engine, tiny: Path) -> None:
    here = with_engine(ctx, llamafactory, tiny)
    send(here, "use lr=3e-4")
    assert commands(here) == [Use(parameter="learning_rate", value=3e-4)]
    send(here, "limit lr<=1e-5")
    assert "is 5e-05; write 1e-05" in config_violations(here, parse_config("lora_rank: 8\n"))[0], (
        "the engine's own default"
    )
