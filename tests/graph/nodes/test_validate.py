"""No text of the config brings an item of a benchmark into the training, and what is said of it names none."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.prepared import prepared, wordproblems
from tuneloop.core.errors import RecipeError
from tuneloop.core.files import write_atomic
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.graph.context import Context
from tuneloop.graph.nodes.validate import refuse_overlaps
from tuneloop.graph.state import State
from tuneloop.tools.benchmark_items.folder import sealed_items, select_validation


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    settings = Settings.model_validate({"FT_FILE_PATH": tmp_path})
    spec = RunSpec(benchmark="wordproblems", base_model="tiny", loop_n=3, timeout=7200)
    run = prepared(settings.home.run("r"), spec, wordproblems(settings.home), tmp_path)
    return Context(run, settings, State(run_id="r", experiment=1, stage="research"))


@pytest.mark.parametrize(
    ("split", "key", "dress"),
    [
        ("test", "default_system", lambda text: "-".join(text.upper().split())),
        ("unseen", "run_name", lambda text: "Be brief. " * 3000 + text),
        ("shown", "tags", lambda text: {"deep": [["a", {text: 1}]]}),
    ],
)
def test_an_item_in_the_config_is_refused_and_not_quoted(ctx: Context, split: str, key: str, dress) -> None:
    folder = ctx.run_tools.benchmarks[0]
    known = select_validation(folder)
    items = {"test": sealed_items(folder), "unseen": known.unseen, "shown": known.shown}[split]
    asked = items[0].fields["prompt"]
    write_atomic(ctx.folder.config, yaml.safe_dump({"lora_rank": 8, key: dress(asked)}, sort_keys=False))
    with pytest.raises(RecipeError) as caught:
        refuse_overlaps(ctx)
    assert caught.value.culprit == "config"
    assert str(caught.value).startswith("train.yaml")
    assert not set(asked.split()) & set(str(caught.value).split()) - {"a", "an", "of", "this", "your", "own", "text"}
    assert items[0].id not in str(caught.value)


def test_what_stands_in_no_value_is_seen_too(ctx: Context) -> None:
    asked = sealed_items(ctx.run_tools.benchmarks[0])[0].fields["prompt"].replace("\n", " ")
    write_atomic(ctx.folder.config, f"lora_rank: 8\n# {asked}\n")
    with pytest.raises(RecipeError, match=r"^train\.yaml: holds an item"):
        refuse_overlaps(ctx)


def test_other_texts_are_right(ctx: Context) -> None:
    write_atomic(ctx.folder.config, "lora_rank: 8\ndefault_system: Solve the problem step by step. 12 and 7 are 19.\n")
    refuse_overlaps(ctx)
