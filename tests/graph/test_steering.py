"""Messages at work: wishes that are refused, replaced, enforced and over; heard within two seconds while a job runs."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.prepared import prepared
from tests.tools.compare.worlds import score
from tuneloop.core.directive import Bound, Directive, Keep, Sources, Use
from tuneloop.core.directive_log import open_directives, read_conversation, read_directives, write_down
from tuneloop.core.errors import RecipeError
from tuneloop.core.experiment import Critique, Experiment, Failure, Feedback, Hypothesis, Training
from tuneloop.core.files import write_atomic, write_json
from tuneloop.core.run import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.graph.brief import task
from tuneloop.graph.context import Context
from tuneloop.graph.hearing import hear
from tuneloop.graph.nodes import validate
from tuneloop.graph.obeying import broken, kept, settle_uses
from tuneloop.graph.state import State
from tuneloop.graph.wait import wait
from tuneloop.tools.benchmarks import resolve
from tuneloop.tools.compare import compare
from tuneloop.tools.engines import Engine
from tuneloop.tools.runs.inbox import put

IDEA = Hypothesis(statement="Twice the steps.", reason="loss still falls", disproof="-", aspect="underfit")


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    """A prepared run of three planned experiments, two hours, some money and one data set of two files; the first is open."""
    settings = Settings.model_validate({"FT_FILE_PATH": tmp_path})
    raw = tmp_path / "raw"
    for name in ("textbook.jsonl", "web_scrape.jsonl"):
        write_atomic(raw / name, "{}\n")
    spec = RunSpec(benchmark="wordproblems", base_model="tiny", loop_n=3, timeout=7200, max_cost=5, sandbox="process")
    found = resolve("wordproblems", settings.home, None)
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


def told(ctx: Context, text: str) -> str:
    """The answer to a message."""
    return hear(ctx, f"{time.time_ns()}", text)[0]


def wishes(ctx: Context) -> list[Any]:
    """In force."""
    return [d.wish for d in open_directives(ctx.run.directives)]


def test_what_cannot_be_met_is_answered_with_what_would_be_right(ctx: Context) -> None:
    assert "there are raw, raw/textbook.jsonl, raw/web_scrape.jsonl" in told(ctx, "use only the wikipedia source")
    told(ctx, "never go above a learning rate of 1e-4")
    assert "directive 1 says otherwise" in told(ctx, "use a learning rate of 5e-4")
    told(ctx, "never use the web scrape")
    assert "no source would be left" in told(ctx, "never use the textbook source")
    assert wishes(ctx) == [Bound(parameter="learning_rate", at_most=1e-4), Sources(never=("raw/web_scrape.jsonl",))]


def test_limits_that_a_run_does_not_have_cannot_be_moved(ctx: Context) -> None:
    spec = ctx.bench.spec.model_copy(update={"timeout": None, "loop_n": None})
    ctx.bench.__dict__["spec"] = spec
    assert "no limit of time" in told(ctx, "give it two more hours")
    assert "no limit of experiments" in told(ctx, "two more experiments")
    assert wishes(ctx) == []


def test_a_new_word_takes_the_place_of_the_old(ctx: Context) -> None:
    told(ctx, "lr at most 1e-4")
    assert "takes the place of 1" in told(ctx, "lr at most 3e-4")
    told(ctx, "ask me before you train")
    told(ctx, "don't ask me any more")
    assert [d.state for d in read_directives(ctx.run.directives)] == ["revoked", "open", "revoked", "open"]


def test_what_is_said_twice_holds_once(ctx: Context) -> None:
    told(ctx, "try LoRA rank 32")
    assert "holds already" in told(ctx, "lora rank 32 please")
    told(ctx, "give it two more hours")
    told(ctx, "give it two more hours")
    assert len(read_directives(ctx.run.directives)) == 3


def test_a_run_that_is_over_takes_no_wish(ctx: Context) -> None:
    ctx.run.report_json.write_text("{}")
    assert "tuneloop fork" in told(ctx, "try LoRA rank 32")
    assert "Run " in told(ctx, "status")
    assert wishes(ctx) == []


def test_only_the_newest_waits_for_a_yes_and_a_run_publishes_nothing(ctx: Context) -> None:
    told(ctx, "delete the run")
    assert "say yes" in told(ctx, "publish the best model to me/model")
    assert [d.state for d in read_directives(ctx.run.directives)] == ["revoked", "pending"]
    assert "A run publishes nothing" in told(ctx, "yes")
    assert "Nothing waits" in told(ctx, "yes")
    assert [d.state for d in read_directives(ctx.run.directives)] == ["revoked", "done"]


def test_money_is_spent_after_a_yes_only(ctx: Context) -> None:
    told(ctx, "spend $5 more")
    assert wishes(ctx) == []
    assert "Understood" in told(ctx, "yes, do it")
    assert [wish.money for wish in wishes(ctx)] == [5]


def test_a_config_that_breaks_a_wish_is_refused_in_the_users_words(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(ctx, "never touch the learning rate above 1e-4!")
    write_atomic(ctx.folder.config, "lora_rank: 8\nlearning_rate: 2.0e-4\n")
    monkeypatch.setattr(Context, "call", lambda *_, **__: {"findings": []})
    with pytest.raises(RecipeError) as caught:
        validate.check_config_file(ctx)
    assert caught.value.culprit == "config"
    assert str(caught.value) == (
        "train.yaml:2 learning_rate: is 0.0002; write 0.0001; "
        "the user wants: 'never touch the learning rate above 1e-4!' (directive 1)"
    )
    write_atomic(ctx.folder.config, "lora_rank: 8\nlearning_rate: 1.0e-4\n")
    validate.check_config_file(ctx)


def test_what_stays_is_held_against_the_best_experiment(ctx: Context) -> None:
    told(ctx, "don't touch the learning rate")
    assert broken(ctx, "learning_rate: 9.0e-4\n") == []
    over(ctx, 1)
    assert wishes(ctx) == [Keep(parameter="learning_rate")]
    assert kept(ctx) == {"learning_rate": 2e-4}
    assert "write 0.0002" in broken(ctx, "learning_rate: 9.0e-4\n")[0]
    assert broken(ctx, "learning_rate: 2.0e-4\n") == []


def test_a_wish_for_the_next_experiment_is_over_when_it_was_used(ctx: Context) -> None:
    told(ctx, "try LoRA rank 32")
    told(ctx, "always use a batch size of 4")
    write_atomic(ctx.folder.config, "lora_rank: 32\nper_device_train_batch_size: 4\n")
    settle_uses(ctx)
    settle_uses(ctx)
    assert wishes(ctx) == [Use(parameter="per_device_train_batch_size", value=4, always=True)]


def test_scripts_see_only_the_sources_that_are_left(ctx: Context) -> None:
    assert ctx.bench.view.key == ""
    told(ctx, "use only the textbook source")
    later = Context(ctx.run, ctx.settings, ctx.state)
    seen = later.bench.view
    assert [p.relative_to(seen.root).as_posix() for p in sorted(seen.root.rglob("*.jsonl"))] == ["raw/textbook.jsonl"]
    assert [Path(p).name for p in seen.read] == ["textbook.jsonl"]
    assert later.bench.view is seen and seen.key
    assert task(later).datasets == ("raw",)


def test_answers_are_true(ctx: Context) -> None:
    assert told(ctx, "why did the last fail?") == "Nothing has failed."
    assert "not measured yet" in told(ctx, "what is the best so far?")
    over(ctx, 1, failure=Failure(node="train", culprit="config", text="loss is nan"))
    assert told(ctx, "why did the last fail?") == "Experiment 1 failed in train (config): loss is nan. Lesson: Less."
    low, high = score([0.0] * 8 + [1.0] * 8), score([1.0] * 16)
    trained = Training(steps=9, seconds=1, rows=3, first_loss=2, last_loss=1.5, tail_slope=0, method="lora")
    turned_down = Feedback(
        promoted=False,
        comparison=compare(low, high),
        reasons=("no better than the incumbent: -50.0 points",),
        critique=Critique(explanation="", lesson=""),
    )
    over(ctx, 2, score=low, training=trained, feedback=turned_down)
    assert "measured and not promoted: 50.0" in (answer := told(ctx, "why was experiment 2 rejected?"))
    assert "no better than the incumbent: -50.0 points" in answer and "loss 2.000 to 1.500" in answer
    assert "1 of 3 experiments" in told(ctx, "how much is left?")
    write_json(ctx.folder.hypothesis, IDEA.model_dump(mode="json"))
    told(ctx, "try rank 4")
    assert "Asked for next: lora_rank = 4" in told(ctx, "what will you try next?")
    table = told(ctx, "what did I ask for?")
    assert table.splitlines()[2] == "| 1 | open | lora_rank = 4 in the next experiment | try rank 4 |"
    assert "No experiment was promoted so far" in told(ctx, "status")
    assert "no experiment 9" in told(ctx, "why did experiment 9 fail?")


def test_what_is_said_while_a_job_runs_is_answered_within_two_seconds(ctx: Context) -> None:
    """Through the wait of a job that takes as long as it must; what was asked to finish holds when it is over."""
    asked: list[float] = []
    answered: list[float] = []
    calls = iter(range(10_000))

    def poll() -> dict[str, Any]:
        number = next(calls)
        if number == 4:
            threading.Thread(target=say).start()
        lines = read_conversation(ctx.run.conversation)
        if len(lines) == 2 and not answered:
            answered.append(time.monotonic())
        return {"state": "done" if answered else "running", "exit": None}

    def say() -> None:
        asked.append(time.monotonic())
        put(ctx.run.inbox, do="say", text="stop after this one")

    wait(ctx, "train", poll, lambda: None)
    assert len(answered) == len(asked) == 1
    assert [d.wish.kind for d in open_directives(ctx.run.directives)] == ["finish"]


def test_two_wishes_in_one_message(ctx: Context) -> None:
    answer = told(ctx, "keep the learning rate below 1e-4 and stop after this one")
    assert [wish.kind for wish in wishes(ctx)] == ["bound", "finish"]
    assert len(answer.splitlines()) == 2


def test_a_directive_of_another_process_is_no_surprise(ctx: Context) -> None:
    write_down(ctx.run.directives, Directive(id="1", said="-", wish=Bound(parameter="nonsense", at_most=1)))
    assert broken(ctx, "lora_rank: 3\n") == []


def test_wishes_are_held_against_the_installed_release(ctx: Context, llamafactory: Engine) -> None:
    settings = ctx.settings.model_copy(update={"llama_factory_path": str(llamafactory.folder)})
    here = Context(ctx.run, settings, ctx.state)
    assert "lora_rank" in (refused := told(here, "use a rank of 2.5")) and "cannot be done" in refused
    assert "cannot be done" in told(here, "never use fewer than -3 epochs")
    assert wishes(here) == []
    assert "Understood" in told(here, "set neftune_noise_alpha to 5")
    assert "write 0.0001" in broken_by(here, "keep lr below 1e-4", "learning_rate: 1.0e-3\n")
    assert "is 5e-05; write 1e-05" in broken_by(here, "lr at most 1e-5", "lora_rank: 8\n"), "the engine's own default"


def broken_by(ctx: Context, text: str, config: str) -> str:
    """What is wrong with a config after a message."""
    told(ctx, text)
    return "\n".join(broken(ctx, config))
