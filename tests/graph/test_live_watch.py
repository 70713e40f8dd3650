"""The node `train` on the real engine: a training that cannot end well is stopped with its evidence, and offered."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest
import yaml

from tests.prepared import prepared, wordproblems
from tuneloop.core.errors import PausedError, RecipeError
from tuneloop.core.event_log import iter_events
from tuneloop.core.events import MonitorFinding
from tuneloop.core.files import read_json, write_json
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.graph.context import Context
from tuneloop.graph.nodes.train import finished_training
from tuneloop.graph.state import State
from tuneloop.tools.config.finalize import write_dataset_info
from tuneloop.tools.hub.store import fingerprint
from tuneloop.tools.runs.messages import put

RECIPE = {
    "finetuning_type": "full",
    "learning_rate": 1e-3,
    "max_steps": 100,
    "per_device_train_batch_size": 4,
    "cutoff_len": 128,
    "lr_scheduler_type": "constant",
    "disable_gradient_checkpointing": True,
}


@pytest.fixture
def context(warm_home: Path, tiny: Path):
    """A run whose first experiment is about to be trained; called with what its recipe changes."""
    contexts: list[Context] = []

    def made(timeout: float | None = None, **changes: object) -> Context:
        settings = Settings(FT_FILE_PATH=warm_home)
        run = settings.home.run("watched")
        found = wordproblems(settings.home)
        spec = RunSpec(benchmark="wordproblems", base_model="tiny", timeout=timeout)
        prepared(run, spec, found, tiny, model_fingerprint=fingerprint(tiny))
        folder = run.experiment(1)
        rows = [
            {
                "instruction": f"Tom has {a} apples and gets {a % 7}.",
                "input": "",
                "output": f"{a} + {a % 7} = {a + a % 7}",
            }
            for a in range(200)
        ]
        write_json(folder.data / "data.json", rows)
        write_json(folder.data / "report.json", {"rows": len(rows)})
        write_dataset_info(folder.data)
        folder.config.write_text(yaml.safe_dump({**RECIPE, **changes}))
        contexts.append(Context(run, settings, State(run_id="watched", experiment=1)))
        return contexts[-1]

    yield made
    for ctx in contexts:
        ctx.run_tools.workers.stop()


def said(ctx: Context) -> list[MonitorFinding]:
    return [e for e in iter_events(ctx.run.events) if isinstance(e, MonitorFinding)]


def test_diverging_training_is_stopped_early(context) -> None:
    ctx = context(learning_rate=50.0, max_steps=2000)
    with pytest.raises(RecipeError, match=r"stopped at step \d+ of 2000: the loss .*learning rate is too high") as e:
        finished_training(ctx)
    assert e.value.culprit == "config"
    found = said(ctx)[-1]
    assert found.stops and found.failure in ("nan", "diverged", "exploded")
    assert found.step < 600 and str(found.step) in found.text
    assert not ctx.folder.training.is_file()


def test_last_good_checkpoint_is_kept_and_none_made_after_failure(context) -> None:
    """The NaN is put into the engine's log by hand; everything else is real."""
    ctx = context(max_steps=400)
    pulse, log = ctx.folder.model / "pulse.json", ctx.folder.model / "watch.jsonl"

    def forge() -> None:
        while not pulse.is_file() or read_json(pulse)["step"] < 100:
            time.sleep(0.02)
        with log.open("a") as f:
            f.write(json.dumps({"step": 401, "of": 400, "loss": float("nan"), "grad_norm": 1.0}) + "\n")

    forging = threading.Thread(target=forge)
    forging.start()
    result = finished_training(ctx)
    forging.join()
    assert result.stopped is not None
    assert (result.stopped.kind, result.stopped.of) == ("nan", 400)
    assert result.steps == result.stopped.step and result.steps % 80 == 0 and result.steps > 0
    state = read_json(ctx.folder.model / "trainer_state.json")
    assert state["global_step"] == result.steps
    (note,) = [e for e in said(ctx) if e.stops]
    assert note.failure == "nan" and "step 401" in note.text


def test_training_past_deadline_stops_with_last_checkpoint(context) -> None:
    ctx = context(max_steps=100_000, timeout=60.0)
    result = finished_training(ctx)
    assert result.stopped is not None and result.stopped.kind == "deadline"
    assert result.steps == result.stopped.step >= result.stopped.at > 0
    assert result.stopped.of == 100_000
    assert [e.stops for e in said(ctx)] == [False, True]
    assert (ctx.folder.model / "model.safetensors").is_file()
    assert not list(ctx.folder.model.glob("*checkpoint*"))
    # Found finished, it is not made again.
    assert finished_training(ctx) == result


def test_a_pause_goes_on_exactly_where_it_was(context) -> None:
    ctx = context(max_steps=150)
    pulse = ctx.folder.model / "pulse.json"

    def ask() -> None:
        while not pulse.is_file() or read_json(pulse)["step"] <= 5:
            time.sleep(0.05)
        put(ctx.run.inbox, do="pause")

    asking = threading.Thread(target=ask)
    asking.start()
    with pytest.raises(PausedError):
        finished_training(ctx)
    asking.join()
    step = read_json(pulse)["step"]
    assert 5 < step < 150
    assert (ctx.folder.model / f"checkpoint-{step}" / "proof.json").is_file()
    result = finished_training(ctx)
    assert result.steps == 150 and result.stopped is None
    history = json.loads((ctx.folder.model / "trainer_state.json").read_text())["log_history"]
    steps = [row["step"] for row in history if "loss" in row]
    assert steps == list(range(3, 151, 3))
