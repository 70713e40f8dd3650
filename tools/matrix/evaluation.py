"""A cell of the matrix: one trained model asked in one format; `results.json` an item, `summary.json` last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tuneloop.core.catalog import Direction, Verified
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import read_model, write_json
from tuneloop.core.run_spec import SandboxKind
from tuneloop.core.score import Score
from tuneloop.core.settings import Settings
from tuneloop.tools.config.model_card import read_model_card
from tuneloop.tools.evaluation.item_sets import ItemSet
from tuneloop.tools.evaluation.standalone.measure import measure
from tuneloop.tools.evaluation.standalone.subjects import Subject, find_subject
from tuneloop.tools.jobs.machine import find_device
from tuneloop.tools.matrix.configs import EvalConfig
from tuneloop.tools.matrix.experiments import Experiment, ResultTree
from tuneloop.tools.matrix.tasks import Task, task_sets
from tuneloop.tools.matrix.training import NOTE, Say, Trained
from tuneloop.tools.training.tokens import Format
from tuneloop.tools.weights.trained_files import ADAPTER, CONFIG

RESULTS, SUMMARY = "results.json", "summary.json"


class Sample(BaseModel):
    """One item of a cell. `value`: 1 right, 0 wrong, or a share where the task's metric is finer."""

    id: str
    prompt: str
    prediction: str
    extracted: str | None
    gold: str
    correct: bool
    value: float = Field(ge=0, le=1)
    cluster: str = ""


class Summary(BaseModel):
    """`summary.json`. `key`: hash of everything that decides the answers; `accuracy` and bounds in percent."""

    model_config = ConfigDict(extra="ignore")

    task: str
    experiment: str
    seed: int
    eval_format: Literal["chat", "raw"]
    model: str
    accuracy: float
    low: float
    high: float
    n: int
    parsed: float
    truncated: int
    key: str
    measured_with: str
    direction: Direction = "max"
    chat_template_kwargs: dict[str, Any] = {}
    trained: Trained | None = None


def missing_models(tree: ResultTree, experiments: Sequence[Experiment]) -> list[Experiment]:
    """Experiments without a model in the tree."""
    return [one for one in experiments if not any((tree.model(one) / name).is_file() for name in (CONFIG, ADAPTER))]


def evaluate_model(
    model: Path,
    task: Task,
    places: Mapping[Format, Path],
    config: EvalConfig,
    options: Mapping[str, Any],
    settings: Settings,
    say: Say,
    *,
    sandbox: SandboxKind = "auto",
    base_model: str | None = None,
) -> dict[Format, Summary]:
    """Ask a model every item in the formats of `places`, in one job, and write each cell into its folder.

    What was answered before under the same conditions is not asked again. Raises InvalidRequestError before anything
    costs, InfrastructureError where a job failed.
    """
    subject = find_subject(str(model), settings, say, base=base_model)
    if "chat" in places:
        check_template(subject)
    every = task_sets(task, config.decoding, config.sample_limit, options)
    sets = {asked: every[asked] for asked in places}
    how: dict[str, Any] = {"device": find_device(), "decoding": config.decoding, "sandbox": sandbox}
    found = measure(subject, tuple(sets.values()), settings, say, **how)
    note = read_model(model / NOTE, Trained) if (model / NOTE).is_file() else None
    told = {"experiment": note.experiment if note else model.name, "seed": note.seed if note else 1}
    return {
        asked: write_cell(
            places[asked],
            one,
            found.scores[one.name],
            {
                **told,
                "task": task.name,
                "eval_format": asked,
                "model": str(model),
                "key": found.keys[one.name],
                "chat_template_kwargs": dict(one.template_options),
                "trained": note,
            },
        )
        for asked, one in sets.items()
    }


def check_template(subject: Subject) -> None:
    """Raises InvalidRequestError for a model that is asked in its chat template and has none."""
    assert subject.weights is not None, "a model's folder holds weights"
    tokenizer = subject.weights.tokenizer or subject.weights.path
    own = [tokenizer, subject.weights.path]
    cards = [read_model_card(place) for place in own if (place / CONFIG).is_file()]
    named = (tokenizer / "chat_template.jinja").is_file()
    if not named and not any(card.chat_template for card in cards):
        raise InvalidRequestError(
            f"model {subject.name}: its tokenizer has no chat template; right is the evaluation without one, or another model"
        )


def write_cell(place: Path, given: ItemSet, score: Score, facts: Mapping[str, Any]) -> Summary:
    """`results.json`, then `summary.json`."""
    prompts = {row["id"]: row["prompt"] for row in given.engine_items}
    gold = {i.id: str(i.calls.item.get("answer", "")) for i in given.items if isinstance(i.calls, Verified)}
    samples = [
        Sample(
            id=item.id,
            prompt=prompts[item.id],
            prediction=item.prediction,
            extracted=item.parsed,
            gold=item.answer or gold.get(item.id, ""),
            correct=item.correct,
            value=item.value,
            cluster=item.cluster,
        ).model_dump()
        for item in score.every
    ]
    numbers = {
        "accuracy": score.value,
        **score.model_dump(include={"low", "high", "n", "parsed", "truncated", "measured_with", "direction"}),
    }
    summary = Summary.model_validate({**facts, **numbers})
    (place / SUMMARY).unlink(missing_ok=True)
    write_json(place / RESULTS, samples)
    write_json(place / SUMMARY, summary.model_dump(mode="json"))
    return summary
