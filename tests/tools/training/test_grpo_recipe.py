"""A recipe with `stage: grpo`: what its config, its rows and the experiment that it builds on must be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import quiet
from tests.prepared import prepared, wordproblems
from tuneloop.core.errors import RecipeError, ToolError
from tuneloop.core.experiment import Hypothesis, Training
from tuneloop.core.files import read_lines, write_json, write_lines
from tuneloop.core.layout import RunFolder, job_input_file
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.tools.benchmarks.wordproblems import BENCHMARK
from tuneloop.tools.config.finding import Finding
from tuneloop.tools.config.grpo_config import GrpoConfig
from tuneloop.tools.config.model_card import read_model_card
from tuneloop.tools.housekeeping.pruning import prune_experiment
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.training import grpo_recipe, methods
from tuneloop.tools.training.grpo import SCORE
from tuneloop.tools.training.grpo_recipe import check_built, check_sample, check_start, grpo_start, plan_experiment
from tuneloop.tools.training.methods import check_recipe
from tuneloop.tools.training.tokens import experiment_tokens

GOOD = "stage: grpo\nmax_steps: 4\nper_device_train_batch_size: 8\nnum_generations: 4\nmax_completion_length: 40\n"


@pytest.fixture
def run_tools(tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> RunTools:
    """A prepared run whose third experiment is open; the first was trained, the second was pruned."""
    settings = Settings(FT_FILE_PATH=tmp_path / "home")
    run = settings.home.run("r")
    prepared(run, RunSpec(benchmark="wordproblems", base_model="tiny"), wordproblems(settings.home), tiny)
    monkeypatch.setattr(grpo_recipe, "find_built_engine", lambda *_: "there")
    write_experiment(run, 1, "full")
    (run.experiment(1).model / "model.safetensors").write_text("weights")
    write_experiment(run, 2, "lora")
    return RunTools(run, settings)


def write_experiment(run: RunFolder, number: int, method: str) -> None:
    folder = run.experiment(number)
    folder.model.mkdir(parents=True)
    done = Training(steps=1, seconds=1, rows=1, first_loss=1, last_loss=1, tail_slope=0, method=method)
    write_json(folder.training, done.model_dump(mode="json"))


def begin(run_tools: RunTools, parent: int | None, config: str = GOOD) -> None:
    folder = run_tools.run.experiment(3)
    idea = Hypothesis(statement="s", reason="r", disproof="d", aspect="method", parent=parent)
    write_json(folder.hypothesis, idea.model_dump(mode="json"))
    folder.config.write_text(config)


def rows(*outputs: str) -> list[dict[str, str]]:
    return [{"instruction": f"How many are {i}?", "input": "", "output": text} for i, text in enumerate(outputs)]


def said(run_tools: RunTools, text: str) -> list[str]:
    return [str(found) for found in check_recipe(run_tools, text)]


def test_a_good_config_has_no_findings(run_tools: RunTools) -> None:
    assert said(run_tools, GOOD) == []


@pytest.mark.parametrize(
    ("line", "finding"),
    [
        ("template: chatml", "train.yaml:6 template: GRPO asks in the form of the evaluation; leave it out"),
        (
            "num_train_epochs: 3",
            "train.yaml:6 num_train_epochs: GRPO counts steps; write max_steps for num_train_epochs",
        ),
        ("num_generation: 8", "train.yaml:6 num_generation: is no parameter of GRPO: did you mean 'num_generations'?"),
        ("temperature: -1.0", "train.yaml:6 temperature: Input should be greater than 0 (given: -1.0)"),
        (
            "loss_type: best",
            "train.yaml:6 loss_type: Input should be 'grpo', 'dapo', 'bnpo' or 'dr_grpo' (given: 'best')",
        ),
        ("train_on_prompt: true", "train.yaml:6 train_on_prompt: GRPO learns from replies"),
        (
            "gradient_accumulation_steps: 3\nsteps_per_generation: 2",
            "steps_per_generation: 2 x 1 iterations is no multiple",
        ),
    ],
)
def test_each_wrong_key_is_named_with_its_line(run_tools: RunTools, line: str, finding: str) -> None:
    (told,) = said(run_tools, f"{GOOD}{line}\n")
    assert finding in told


def test_replies_must_fit_the_model(run_tools: RunTools) -> None:
    (told,) = said(run_tools, GOOD.replace("40", "100000"))
    assert "max_completion_length: leaves no room for a prompt" in told


@pytest.mark.parametrize(("room", "longest"), [(10, 10), (100, 64)])
def test_a_prompt_leaves_room_for_a_whole_reply(
    run_tools: RunTools, monkeypatch: pytest.MonkeyPatch, room: int, longest: int
) -> None:
    monkeypatch.setattr(grpo_recipe, "training_key", lambda *_: "key")
    positions = read_model_card(run_tools.setup.model_root).max_positions or 0
    begin(run_tools, 1, GOOD.replace("40", str(positions - room)) + "max_prompt_length: 64\n")
    folder = run_tools.run.experiment(3)
    write_json(folder.data / "data.json", rows("\\boxed{2}", "\\boxed{3}"))
    jobs = plan_experiment(run_tools, folder)
    assert jobs.job(folder.model, jobs.values)["longest"] == longest


def test_broken_yaml_is_no_recipe(run_tools: RunTools) -> None:
    assert "is no mapping" in said(run_tools, "- stage: grpo\n")[0]


def test_an_engine_that_is_not_built_is_not_built_by_an_agent(
    run_tools: RunTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grpo_recipe, "find_built_engine", lambda *_: None)
    (told,) = said(run_tools, GOOD)
    assert "train.yaml:1 stage: grpo needs the engine trl" in told and "write stage: sft" in told


@pytest.mark.parametrize("answer", ["code", "scorer:chem_edit"])
def test_a_benchmark_without_readable_answers_is_refused(run_tools: RunTools, answer: str) -> None:
    declared = BENCHMARK.model_copy(update={"answer": answer})
    vars(run_tools)["setup"] = run_tools.setup.model_copy(update={"benchmark": declared})
    assert "stage: grpo needs" in said(run_tools, GOOD)[0]


@pytest.mark.parametrize(
    ("outputs", "culprit", "cure"),
    [
        (["\\boxed{2}"], "config", "a smaller per_device_train_batch_size"),
        (["two"] * 9, "data", "outputs that end in the form the scorer reads"),
    ],
)
def test_few_prompts_are_refused(run_tools: RunTools, outputs: list[str], culprit: str, cure: str) -> None:
    begin(run_tools, 1)
    folder = run_tools.run.experiment(3)
    write_json(folder.data / "data.json", rows(*outputs))
    with pytest.raises(RecipeError, match=cure) as e:
        check_built(run_tools, folder)
    assert e.value.culprit == culprit and "\n" not in str(e.value)


def test_rows_that_are_left_out_are_counted(run_tools: RunTools) -> None:
    begin(run_tools, 1)
    folder = run_tools.run.experiment(3)
    write_json(folder.data / "data.json", rows("\\boxed{2}", "\\boxed{3}", "four"))
    assert "GRPO asks 2 prompts; 1 rows are left out" in check_built(run_tools, folder)
    write_json(folder.data / "data.json", rows("\\boxed{2}", "\\boxed{3}"))
    assert check_built(run_tools, folder) == ""


@pytest.fixture
def verified(run_tools: RunTools, tmp_path: Path) -> RunTools:
    """The same, of a benchmark whose replies a verifier scores, and a data set of its raw rows."""
    place = tmp_path / "pool"
    raw = [{"id": i, "what": f"How many are {i}?", "answer": str(i), "most": 10 * i} for i in range(8)]
    write_lines(place / "rows.jsonl", raw)
    declared = BENCHMARK.model_copy(
        update={"answer": "verifier:v.py", "verifier": "score = None", "prompt": "{what} Say."}
    )
    vars(run_tools)["setup"] = run_tools.setup.model_copy(update={"benchmark": declared, "datasets": {"pool": place}})
    begin(run_tools, 1)
    return run_tools


def asked(*prompts: str) -> list[dict[str, str]]:
    return [{"instruction": prompt, "input": "", "output": "any"} for prompt in prompts]


def test_the_scorer_gets_the_raw_row_behind_each_prompt(verified: RunTools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpo_recipe, "training_key", lambda *_: "key")
    folder = verified.run.experiment(3)
    assert said(verified, GOOD) == []
    write_json(folder.data / "data.json", asked("How many are 3? Say.", "How many are 5? Say.", "How many are 9? Say."))
    assert "1 rows are left out: the prompt is not that of wordproblems over one raw row" in check_built(
        verified, folder
    )
    jobs = plan_experiment(verified, folder)
    assert [row["prompt"] for row in read_lines(jobs.prompts)] == ["How many are 3? Say.", "How many are 5? Say."]
    golds = list(read_lines(job_input_file(folder.work, SCORE) / "golds.jsonl"))
    assert golds[0] == {"item": {"what": "How many are 3?", "answer": "3", "most": 30}}


def test_prompts_that_no_raw_row_makes_are_no_prompts_of_a_verifier(verified: RunTools) -> None:
    folder = verified.run.experiment(3)
    write_json(folder.work / "sample" / "data.json", asked("How many are 3?"))
    with pytest.raises(RecipeError, match=r"right is the benchmark's own prompt, .* \(what\)") as e:
        check_sample(verified, folder)
    assert e.value.culprit == "data" and "\n" not in str(e.value)


def test_it_begins_with_the_weights_of_the_experiment_it_builds_on(run_tools: RunTools) -> None:
    begin(run_tools, 1)
    folder = run_tools.run.experiment(3)
    start = grpo_start(run_tools, folder, GrpoConfig())
    assert (start.model, start.experiment) == (run_tools.run.experiment(1).model, 1)
    again = replace(run_tools.run, training=2).experiment(3)
    assert grpo_start(run_tools, again, GrpoConfig()) == start, "another seed begins with the same"
    assert grpo_start(run_tools, folder, GrpoConfig(start_from="base")).model == run_tools.setup.model_root


@pytest.mark.parametrize(
    ("parent", "start_from", "why"),
    [
        (2, "auto", "experiment 2, on which this one builds, has no trained weights; write stage: sft"),
        (None, "sft", "an experiment from scratch has no trained weights; write stage: sft"),
    ],
)
def test_without_an_sft_it_is_refused(run_tools: RunTools, parent: int | None, start_from: str, why: str) -> None:
    begin(run_tools, parent, f"{GOOD}start_from: {start_from}\n")
    with pytest.raises(RecipeError, match=why):
        check_start(run_tools, run_tools.run.experiment(3))


def test_another_seed_says_that_the_weights_it_began_with_were_pruned(run_tools: RunTools) -> None:
    begin(run_tools, 1)
    prune_experiment(run_tools.run.experiment(1), weights=True, raw=False, rule="best,last")
    again = replace(run_tools.run, training=2).experiment(3)
    with pytest.raises(RecipeError, match=r"experiment 1's weights were pruned \(FT_KEEP_MODELS=best,last\)") as e:
        grpo_start(run_tools, again, GrpoConfig())
    assert e.value.culprit == "environment"


def test_from_scratch_the_smoke_run_says_whether_the_base_model_earns_enough(run_tools: RunTools) -> None:
    begin(run_tools, None)
    check_start(run_tools, run_tools.run.experiment(3))


def test_there_are_no_tokens_to_show(run_tools: RunTools) -> None:
    begin(run_tools, 1)
    folder = run_tools.run.experiment(3)
    write_json(folder.data / "data.json", rows("\\boxed{2}"))
    with pytest.raises(ToolError, match="learns from replies"):
        experiment_tokens(run_tools, folder, 0, quiet)


@pytest.mark.parametrize(
    ("form", "line", "finding"),
    [
        ("chat", "template: chatml", ""),
        ("chat", "default_system: You count.", "default_system: the evaluation asks without this system turn"),
        ("base", "template: chatml", "template: the evaluation asks plain text"),
        ("base", "template: empty", ""),
    ],
)
def test_a_form_that_differs_between_training_and_evaluation_is_found(
    run_tools: RunTools, monkeypatch: pytest.MonkeyPatch, form: str, line: str, finding: str
) -> None:
    monkeypatch.setattr(methods, "check_run_config", lambda *_: [])
    declared = BENCHMARK.model_copy(update={"form": form})
    vars(run_tools)["setup"] = run_tools.setup.model_copy(update={"benchmark": declared})
    told = [str(found) for found in check_recipe(run_tools, f"{line}\n") if found.level == "warning"]
    assert [finding in text for text in told] == ([True] if finding else [])


def test_a_template_that_is_not_evaluated_is_nothing_to_agree_with(
    run_tools: RunTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlike = Finding("warning", 1, "template", "empty is not how the tokenizer renders a chat, as the evaluation does")
    monkeypatch.setattr(methods, "check_run_config", lambda *_: [unlike])
    assert check_recipe(run_tools, "template: empty\n") == [unlike]
    declared = BENCHMARK.model_copy(update={"form": "base"})
    vars(run_tools)["setup"] = run_tools.setup.model_copy(update={"benchmark": declared})
    assert check_recipe(run_tools, "template: empty\n") == []
