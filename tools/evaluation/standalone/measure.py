"""Measure one subject on sets of items: where its jobs lie, what is asked first, and what comes out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from tuneloop.core.catalog import Benchmark
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import digest
from tuneloop.core.layout import RunFolder
from tuneloop.core.lease import hold_lease
from tuneloop.core.locks import exclusive
from tuneloop.core.run_spec import SandboxKind
from tuneloop.core.score import Score
from tuneloop.core.settings import Settings
from tuneloop.tools.benchmark_items import resolve
from tuneloop.tools.benchmark_items.folder import BenchmarkFolder
from tuneloop.tools.evaluation.item_sets import (
    EvaluationConditions,
    ItemSet,
    Measured,
    ModelWeights,
    choose_backend,
    make_item_set,
)
from tuneloop.tools.evaluation.jobs import Evaluation, EvaluationFolder, cached_results
from tuneloop.tools.evaluation.standalone.replies import ask_served_model, replies_from_file
from tuneloop.tools.evaluation.standalone.run_tools import StandaloneRunTools, run_evaluation
from tuneloop.tools.evaluation.standalone.subjects import Subject
from tuneloop.tools.housekeeping.disk import remove_path
from tuneloop.tools.hub.models import Progress
from tuneloop.tools.jobs.gpu_share import job_gpus
from tuneloop.tools.jobs.machine import cpu_threads
from tuneloop.tools.llm_proxy.access import upstreams, with_served_endpoint
from tuneloop.tools.llm_proxy.probe import check_endpoint
from tuneloop.tools.scoring.llm_judge import check_judge, find_judge

# Which items an evaluation outside of a run asks, and how: names become sets, and the seeds' variables overrule decoding.


@dataclass(frozen=True)
class Decoding:
    """What overrules the benchmarks' own declarations; None: nothing. `max_seq_len`: tokens of prompt and answer together."""

    max_out_len: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_seq_len: int | None = None
    batch_size: int | None = None

    def on(self, benchmark: Benchmark) -> Benchmark:
        """The benchmark decoded in this way. Raises InvalidRequestError for a number out of bounds."""
        changed = {"max_new_tokens": self.max_out_len, "temperature": self.temperature, "top_p": self.top_p}
        update = {name: value for name, value in changed.items() if value is not None}
        if not update:
            return benchmark
        try:
            return Benchmark.model_validate({**benchmark.model_dump(), **update})
        except ValidationError as e:
            first: Any = e.errors()[0]
            raise InvalidRequestError(f"{first['loc'][0]} {first['input']!r}: {first['msg']}") from e


def expand_families(names: Sequence[str], settings: Settings) -> list[str]:
    """Families replaced by their parts, each name once. Raises InvalidRequestError for an unknown one, before any fetch."""
    found = [part for name in names for part in resolve.family_members(name) or (name,)]
    for name in found:
        resolve.check_benchmark(name, settings)
    return list(dict.fromkeys(found))


def fetch_benchmarks(names: Sequence[str], settings: Settings) -> list[BenchmarkFolder]:
    """The benchmarks, fetched where they are not here yet. Raises InvalidRequestError or InfrastructureError."""
    return [
        resolve.resolve_benchmark(name, settings.home, settings=settings) for name in expand_families(names, settings)
    ]


def sets_of(
    folders: Sequence[BenchmarkFolder], split: Measured, limit: int | None, decoding: Decoding
) -> tuple[ItemSet, ...]:
    """Their items. Raises InvalidRequestError where none are left, or where only a part of a sealed test is wanted."""
    if split == "test" and limit is not None:
        raise InvalidRequestError("--limit with --split test: a sealed test is read whole or not at all")
    found = []
    for folder in folders:
        declared = BenchmarkFolder(decoding.on(folder.benchmark), folder.root, folder.fingerprint)
        one = replace(
            make_item_set(declared, split, limit), unseen=frozenset()
        )  # the owner of this machine sees all items
        if not one.items:
            raise InvalidRequestError(f"{one.name}: no items are left of its {split} split")
        found.append(one)
    return tuple(found)


AS_DECLARED = Decoding()
SERVED = "--endpoint, and TUNELOOP_EVAL_API_KEY, which goes to TUNELOOP_EVAL_API_BASE alone"


@dataclass(frozen=True)
class Measurement:
    """Scores by set. `place`: the evaluation's folder; `key`: hash of all that decides the answers to a set, by set."""

    subject: Subject
    sets: tuple[ItemSet, ...]
    scores: dict[str, Score]
    place: Path
    keys: dict[str, str]
    how: EvaluationConditions
    engine: str
    notes: tuple[str, ...] = field(default=())


def measure(
    subject: Subject,
    sets: tuple[ItemSet, ...],
    settings: Settings,
    say: Progress,
    *,
    device: str,
    decoding: Decoding = AS_DECLARED,
    seed: int = 1,
    sandbox: SandboxKind = "auto",
) -> Measurement:
    """Every item answered, scored and verified. Asked again after a kill it goes on, for each benchmark.

    Raises InvalidRequestError before anything costs, InfrastructureError where a job failed.
    """
    benchmarks = tuple(one.benchmark for one in sets)
    judge = find_judge(settings, benchmarks)
    if subject.served:  # weights behind a name may change: nothing of it is taken from an earlier evaluation
        settings = with_served_endpoint(settings.model_copy(update={"enable_cache": False}), subject.base)
        check_endpoint(upstreams(settings)["served"], subject.served, "the model's endpoint", SERVED)
    run_tools = StandaloneRunTools(
        evaluation_folder(subject, sets, settings, device, decoding, seed), settings, sandbox, device, say
    )
    run_tools.run.root.mkdir(parents=True, exist_ok=True)
    with hold_lease(settings.home.root), exclusive(run_tools.run.lock):
        weights, notes = ask_for_replies(run_tools, subject, sets, seed, say)
        how = evaluation_conditions(run_tools, weights, decoding, seed)
        e = Evaluation(
            EvaluationFolder(run_tools, run_tools.run.root, benchmarks, judge), (weights,), sets, how, retry=True
        )
        if judge is not None and cached_results(e).missing:
            check_judge(settings, judge)
        scores = {name: score for (_, name), score in run_evaluation(e, say).items()}
        if any(one.split == "test" for one in sets):
            for name in ("work", "jobs"):  # nothing of a sealed test stays
                remove_path(run_tools.run.root / name)
    if judge is None and (by_rule := [one.name for one in sets if one.benchmark.judge]):
        notes = (*notes, f"no judge (FT_JUDGE_MODEL): the rule alone decides on {', '.join(by_rule)}")
    keys = {name: key for (_, name), key in e.keys.items()}
    return Measurement(subject, sets, scores, run_tools.run.root, keys, how, e.engine.identity, notes)


def ask_for_replies(
    run_tools: StandaloneRunTools, subject: Subject, sets: tuple[ItemSet, ...], seed: int, say: Progress
) -> tuple[ModelWeights, tuple[str, ...]]:
    """What the engine measures, and what there is to say of it."""
    if subject.served:
        weights, missing = ask_served_model(run_tools, subject.name, subject.served, sets, seed, say)
        note = f"{missing} questions were refused by the endpoint: their replies are empty, and wrong"
        return weights, (note,) if missing else ()
    if subject.replies:
        return replies_from_file(subject.name, subject.replies, sets, run_tools.run.root / "work" / "replies"), ()
    assert subject.weights is not None, "a subject is one of these"
    return subject.weights, ()


def evaluation_conditions(
    run_tools: StandaloneRunTools, weights: ModelWeights, decoding: Decoding, seed: int
) -> EvaluationConditions:
    """Device, backend and batches. Raises InvalidRequestError."""
    adapters = [weights.adapter] if weights.adapter else []
    engine = run_tools.engine("opencompass")
    backend = (
        "hf" if weights.replies else choose_backend(run_tools.settings.backend, engine, run_tools.device, adapters)
    )
    device: Literal["cpu", "cuda"] = "cuda" if run_tools.device == "cuda" else "cpu"
    files = run_tools.settings.scorer_folder
    own = {"batch_size": decoding.batch_size, "longest": decoding.max_seq_len}
    gpus = job_gpus(run_tools.settings, None, device)[0] if backend == "vllm" else 0
    threads = cpu_threads(weights.path) if device == "cpu" and not weights.replies else 1
    return EvaluationConditions(
        device=device, backend=backend, seed=seed, files=files, threads=threads, gpus=gpus, **own
    )


def evaluation_folder(
    subject: Subject, sets: Sequence[ItemSet], settings: Settings, device: str, decoding: Decoding, seed: int
) -> RunFolder:
    """Where this very question is answered, also when it is asked again. Raises InvalidRequestError for two sets of one name."""
    names = [one.name for one in sets]
    if len(set(names)) != len(names):
        raise InvalidRequestError(f"two benchmarks of one name in {', '.join(names)}")
    asked = [[one.name, one.split, [item.id for item in one.items]] for one in sets]
    bases = [
        upstreams(settings)[purpose].base for purpose in ("judge", "served")
    ]  # a proxy keeps to those of its start
    own = digest(subject.described, *bases, json.dumps([asked, device, seed, vars(decoding)]))
    return RunFolder(settings.home.evaluations / f"eval-{subject.name[:60]}-{own}")
