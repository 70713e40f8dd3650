"""The base model of a run that named none: the best of the list are measured on a few items, a chat model may overrule."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from tuneloop.agents.model_selector import MODEL_SELECTOR
from tuneloop.core.catalog import Benchmark
from tuneloop.core.errors import InfrastructureError, InvalidRequestError, PausedError, RecipeError
from tuneloop.core.events import AgentAnswered
from tuneloop.core.files import read_model, write_json
from tuneloop.core.formatting import format_duration
from tuneloop.core.prompt_escaping import escape_role_markers, fence
from tuneloop.core.transcript import transcript_path
from tuneloop.graph.context import Context
from tuneloop.graph.steering.llm_listener import ask_without_tools
from tuneloop.prompts import fill
from tuneloop.sandboxes.local import gpu_memory
from tuneloop.tools.benchmark_items.folder import BenchmarkFolder
from tuneloop.tools.engines import Engine
from tuneloop.tools.evaluation.item_sets import ItemSet, make_item_set
from tuneloop.tools.evaluation.standalone.measure import measure
from tuneloop.tools.evaluation.standalone.subjects import find_subject
from tuneloop.tools.hub.base_models import JudgedModel, ModelChoice, best_of, find_candidates, judge_candidates
from tuneloop.tools.hub.models import Progress
from tuneloop.tools.jobs.machine import find_device
from tuneloop.tools.weights.formats import check_architecture

PROBED, ITEMS = 3, 16
LEAST, MOST, SHARE = 60.0, 900.0, 0.1  # seconds of all probes, and of a run's time


class _TooSlowError(PausedError):
    """A probe has used up its time."""


def chosen_model(ctx: Context, folder: BenchmarkFolder, engines: Sequence[Engine], say: Progress) -> str:
    """A name that can be resolved; found again after a kill. Raises InvalidRequestError when nothing fits this machine."""
    file = ctx.run.model_choice
    if not file.is_file():
        timeout = ctx.run_tools.spec.timeout
        judged = judge_candidates(find_candidates(ctx.settings), folder.benchmark, ctx.settings, ctx.run_tools.spec)
        budget = min(MOST, max(LEAST, SHARE * (timeout or MOST / SHARE)))
        say(f"choosing a base model: up to {PROBED} are measured, for {format_duration(budget)} at most", 0, 0)
        if ctx.run_tools.spec.executor != "local" and find_device() == "cuda" and not gpu_memory():
            note = "the GPUs are on nodes, and candidates are measured here"
            measured = [one.model_copy(update={"note": note}) for one in judged]
        else:
            measured = probe(judged, budget, lambda name, left: measure_on_few(ctx, name, folder, engines, left, say))
        choice = decide(ctx, measured, folder.benchmark)
        write_json(file, choice.model_dump(mode="json"))
        ctx.emit(AgentAnswered(agent=choice.chosen_by, says=f"base model: {choice.base_model}", why=choice.reason))
    return read_model(file, ModelChoice).base_model


def probe(
    judged: Sequence[JudgedModel], budget: float, measured: Callable[[str, float], tuple[float, int]]
) -> list[JudgedModel]:
    """The same with scores of the first few that are possible.

    Args:
        judged: the most promising first.
        budget: seconds for all probes; each may take half of what is left, the last all of it.
        measured: score and items of a name, within so many seconds. What it raises is told beside the name: a model that
            cannot be fetched is not possible, and where a hub does not answer, none that is not here is. The only one that is
            left is not measured.
    """
    done: list[JudgedModel] = []
    tried, began, offline = 0, time.monotonic(), ""
    for place, one in enumerate(judged):
        left = budget - (time.monotonic() - began)
        if one.refused or (offline and on_hub(one)):
            done.append(one if one.refused else one.model_copy(update={"refused": offline}))
            continue
        others = (*done, *(later for later in judged[place + 1 :] if not (offline and on_hub(later))))
        if all(other.refused for other in others):
            done.append(one.model_copy(update={"note": "nothing else can be taken"}))
            continue
        if tried == PROBED or left <= 0:
            done.append(
                one.model_copy(update={"note": "others promise more" if left > 0 else "the time for it was over"})
            )
            continue
        at = time.monotonic()
        try:
            value, items = measured(one.name, left if tried == PROBED - 1 else left / 2)
        except _TooSlowError:
            done.append(
                one.model_copy(update={"note": f"too slow: no score within {format_duration(time.monotonic() - at)}"})
            )
            tried += 1
            continue
        except (InfrastructureError, InvalidRequestError) as e:
            done.append(one.model_copy(update={"refused": str(e)}))
            offline = str(e) if on_hub(one) and isinstance(e, InfrastructureError) else offline
            continue
        tried += 1
        found = {"value": value, "items": items, "probe_seconds": time.monotonic() - at}
        done.append(one.model_copy(update=found))
    return done


def on_hub(one: JudgedModel) -> bool:
    """Whether it has to be fetched from a hub."""
    return "/" in one.name and not one.here


def measure_on_few(
    ctx: Context, name: str, folder: BenchmarkFolder, engines: Sequence[Engine], seconds: float, say: Progress
) -> tuple[float, int]:
    """Score of the untouched model on the first shown validation items, and how many; fetching it takes its own time.

    Raises InvalidRequestError or InfrastructureError when it cannot be had or run, _TooSlowError, PausedError.
    """
    subject = find_subject(name, ctx.settings, say)
    assert subject.weights is not None, "a base model is weights"
    for engine in engines:
        check_architecture(subject.weights.path, engine)
    whole = make_item_set(folder, "validation")
    shown = tuple(item for item in whole.items if item.id not in whole.unseen)[:ITEMS]
    few: ItemSet = replace(whole, items=shown, unseen=frozenset())
    began = time.monotonic()

    def watched(what: str, done: int, total: int) -> None:
        say(f"{what} of {name}", done, total)
        if time.monotonic() - began > seconds:
            raise _TooSlowError(name)

    found = measure(subject, (few,), ctx.settings, watched, device=find_device(), sandbox=ctx.run_tools.spec.sandbox)
    return found.scores[few.name].value, len(shown)


def decide(ctx: Context, judged: Sequence[JudgedModel], benchmark: Benchmark) -> ModelChoice:
    """What measurements and sizes speak for; where a chat model plans, it may prefer another one that is possible."""
    best, reason = best_of(judged, benchmark)
    found = ModelChoice(base_model=best.name, reason=reason, chosen_by="code", judged=tuple(judged))
    if not ctx.settings.chat_model:
        return found
    try:
        preferred = ask_without_tools(
            ctx, MODEL_SELECTOR, fill(MODEL_SELECTOR.name, facts=facts(ctx, found, benchmark)),
            transcript_path(ctx.run.answers, MODEL_SELECTOR.name, 0),
        )  # fmt: skip
    except RecipeError as e:
        return found.model_copy(update={"reason": f"{reason}; the chat model was asked and gave no answer: {e}"[:2000]})
    if preferred.base_model not in {one.name for one in judged if not one.refused}:
        return found
    return found.model_copy(
        update={"base_model": preferred.base_model, "reason": preferred.reason, "chosen_by": MODEL_SELECTOR.name}
    )


def facts(ctx: Context, proposal: ModelChoice, benchmark: Benchmark) -> str:
    """What the model selector is told, fenced."""
    spec = ctx.run_tools.spec
    limits = ", ".join(
        ([format_duration(spec.timeout)] if spec.timeout else [])
        + ([f"{spec.loop_n} experiments"] if spec.loop_n else [])
    )
    lines = [
        f"benchmark: {benchmark.name} ({benchmark.domain}), answers of {benchmark.max_new_tokens} tokens at most",
        benchmark.description,
        f"the run ends after: {limits or 'nothing'}",
        f"proposal: {proposal.base_model}: {proposal.reason}",
        "candidates:",
        *(f"- {one.line}" for one in proposal.judged),
    ]
    return fence("text", escape_role_markers("\n".join(lines)))
