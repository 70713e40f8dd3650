"""Which base models may be chosen: memory, time, context and template refuse, scores decide, a tie goes to the larger one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tuneloop.cli.dry_run import model_need
from tuneloop.core.catalog import Benchmark
from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.run_spec import AUTO, RunSpec
from tuneloop.core.settings import Settings
from tuneloop.graph.lifecycle.create_run import check_model_choice, create_run_folder
from tuneloop.graph.nodes.choose_model import probe
from tuneloop.tools.benchmark_items.resolve import check_benchmark
from tuneloop.tools.config.model_card import read_model_card
from tuneloop.tools.hub import base_models
from tuneloop.tools.hub.base_models import JudgedModel, best_of, find_candidates, judge_candidates, listed_models
from tuneloop.tools.models.tiny import SHIPPED


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(base_models, "find_device", lambda: "cpu")
    monkeypatch.setattr(base_models, "physical_cores", lambda: 2)
    return Settings(FT_FILE_PATH=tmp_path, TUNELOOP_JOB_MEMORY=str(8 << 30))


@pytest.fixture
def wordproblems(settings: Settings) -> Benchmark:
    return check_benchmark("wordproblems", settings)


def judged_by_name(settings: Settings, benchmark: Benchmark, **asked: Any) -> dict[str, JudgedModel]:
    spec = RunSpec(benchmark="b", base_model=AUTO, **asked)
    return {one.name: one for one in judge_candidates(find_candidates(settings), benchmark, settings, spec)}


def test_the_list_says_the_sizes_of_the_shipped_model() -> None:
    tiny = next(one for one in listed_models() if one.name == "tiny")
    card = read_model_card(SHIPPED)
    assert tiny.context == card.max_positions
    assert tiny.shape(SHIPPED).parameters == pytest.approx(card.shape.parameters, rel=0.01)
    assert {name: (g.outputs, g.inputs) for name, g in tiny.shape(SHIPPED).linears.items()} == {
        name: (g.outputs, g.inputs) for name, g in card.shape.linears.items()
    }


def test_on_nodes_the_memory_of_their_gpus_decides(
    tmp_path: Path, wordproblems: Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine that tuneloop runs on has none."""
    monkeypatch.setattr(base_models, "find_device", lambda: "cuda")
    monkeypatch.setattr(base_models, "gpu_memory", dict)
    told = Settings(FT_FILE_PATH=tmp_path, TUNELOOP_GPU_MEMORY=str(80 << 30))
    assert not judged_by_name(told, wordproblems, executor="slurm")["Qwen/Qwen2.5-7B-Instruct"].refused
    small = Settings(FT_FILE_PATH=tmp_path, TUNELOOP_GPU_MEMORY=str(2 << 30))
    assert "there are 2.1 GB" in judged_by_name(small, wordproblems, executor="ray")["Qwen/Qwen2.5-7B-Instruct"].refused
    monkeypatch.setattr(base_models, "gpu_memory", lambda: {0: 80 << 30})
    assert not judged_by_name(small, wordproblems)["Qwen/Qwen2.5-7B-Instruct"].refused, "jobs run here"
    monkeypatch.setattr(base_models, "gpu_memory", dict)
    with pytest.raises(InvalidRequestError, match=r"right is --base-model FOLDER\|ID, .* or TUNELOOP_GPU_MEMORY"):
        judged_by_name(Settings(FT_FILE_PATH=tmp_path), wordproblems)


def test_memory_time_and_context_refuse(settings: Settings, wordproblems: Benchmark) -> None:
    found = judged_by_name(settings, wordproblems)
    assert "there are 8.6 GB" in found["Qwen/Qwen2.5-7B-Instruct"].refused
    assert not found["smollm2"].refused
    hurried = judged_by_name(settings, wordproblems, timeout=300.0)
    assert "an experiment may take" in hurried["smollm2"].refused
    assert not hurried["tiny"].refused
    long_answers = wordproblems.model_copy(update={"max_new_tokens": 600})
    assert "512 positions" in judged_by_name(settings, long_answers)["tiny"].refused


def test_models_in_the_home_take_part_with_their_licence(settings: Settings, wordproblems: Benchmark) -> None:
    own = settings.home.models / "me" / "mine"
    shutil.copytree(SHIPPED, own)
    (own / "manifest.json").write_text("{}")
    (own / "README.md").write_text("---\nlicense: mit\n---\n")
    broken = settings.home.models / "me" / "broken"
    broken.mkdir()
    (broken / "manifest.json").write_text("{}")
    found = judged_by_name(settings, wordproblems)
    assert (found["me/mine"].licence, found["me/mine"].refused, found["me/mine"].here) == ("mit", "", True)
    assert "me/broken" not in found
    config = json.loads((own / "tokenizer_config.json").read_text())
    config.pop("chat_template", None)
    (own / "tokenizer_config.json").write_text(json.dumps(config))
    (own / "chat_template.jinja").unlink()
    assert judged_by_name(settings, wordproblems)["me/mine"].refused == "it has no chat template"


def judged(name: str, parameters: int, value: float | None = None, refused: str = "") -> JudgedModel:
    return JudgedModel(
        name=name, licence="MIT", why="", here=False, parameters=parameters, memory=1, rank=parameters,
        value=value, items=16, refused=refused,
    )  # fmt: skip


def test_scores_decide_and_a_tie_goes_to_the_larger(wordproblems: Benchmark) -> None:
    assert best_of([judged("large", 9, 10.0), judged("small", 1, 60.0)], wordproblems)[0].name == "small"
    assert best_of([judged("large", 9, 0.0), judged("small", 1, 0.0)], wordproblems)[0].name == "large"
    assert best_of([judged("large", 9, 55.0), judged("small", 1, 60.0)], wordproblems)[0].name == "large"
    less = wordproblems.model_copy(update={"direction": "min"})
    assert best_of([judged("large", 9, 90.0), judged("small", 1, 10.0)], less)[0].name == "small"
    with pytest.raises(InvalidRequestError, match="none of the list fits"):
        best_of([judged("large", 9, refused="too large")], wordproblems)


def test_a_run_that_could_choose_no_model_is_refused_before_it_begins(settings: Settings, tmp_path: Path) -> None:
    asked = {"benchmark": "gsm8k", "base_model": AUTO}
    check_model_choice(RunSpec.model_validate({**asked, "timeout": "4h"}), settings)
    said = r"none of the list fits \(tiny: its 512 positions hold no answer .*; smollm2: an experiment may take 20 s\): right is"
    short = RunSpec.model_validate({**asked, "timeout": "1m"})
    with pytest.raises(InvalidRequestError, match=said):
        create_run_folder(short, settings)
    assert not settings.home.runs.exists()
    need = model_need(short, settings, check_benchmark("gsm8k", settings))
    assert (need.name, need.action) == ("none", "refuse")


def test_without_a_hub_what_is_there_is_measured() -> None:
    """The first model of the hub is asked for, the others are not; three are measured at most."""
    asked = []

    def measured(name: str, seconds: float) -> tuple[float, int]:
        asked.append((name, seconds))
        if "/" in name:
            raise InfrastructureError("the hub does not answer")
        return 50.0, 16

    names = ("org/a", "org/b", "one", "two", "three", "four")
    found = {one.name: one for one in probe([judged(name, 5) for name in names], 100.0, measured)}
    assert [name for name, _ in asked] == ["org/a", "one", "two", "three"]
    assert found["org/b"].refused == "the hub does not answer"
    assert found["four"].note
    assert found["four"].value is None
    seconds = dict(asked)
    assert seconds["one"] == pytest.approx(50, abs=1)
    assert seconds["three"] == pytest.approx(100, abs=1)


def test_the_only_one_that_is_left_is_not_measured(wordproblems: Benchmark) -> None:
    """Also where the hub's silence leaves one; the reason says why the others are none."""

    def measured(name: str, seconds: float) -> tuple[float, int]:
        assert name == "org/a"
        raise InfrastructureError("the hub does not answer")

    found = probe(
        [judged("org/a", 5), judged("org/b", 4), judged("one", 1), judged("big", 9, refused="too large")], 9, measured
    )
    chosen, why = best_of(found, wordproblems)
    assert (chosen.name, chosen.note) == ("one", "nothing else can be taken")
    assert why == (
        "the only one that can be taken; licence MIT; others cannot be taken (2: the hub does not answer, 1: too large)"
    )
