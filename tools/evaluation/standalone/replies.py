"""Replies of a model at an OpenAI-compatible endpoint: asked by a job behind a door, so that no key enters a sandbox."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tuneloop.core.catalog import Benchmark
from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.files import read_lines, write_lines
from tuneloop.tools.benchmark_items.folder import render_prompt
from tuneloop.tools.evaluation.item_sets import ItemSet, ModelWeights
from tuneloop.tools.evaluation.jobs import exited_cleanly
from tuneloop.tools.evaluation.standalone.run_tools import StandaloneRunTools, last_error_line, wait_for
from tuneloop.tools.hub.models import Progress
from tuneloop.tools.jobs.machine import job_limits
from tuneloop.tools.llm_proxy.access import served_access
from tuneloop.tools.llm_proxy.batch import LlmAnswer, LlmRequest, batch_command, read_answers

# A user's file of replies, written anew as the engine reads it: any predictions can be scored like a model's.

FORM = "right is JSON Lines with id and prediction, and set where there are several benchmarks"
RepliesBySet = dict[tuple[str, str], object]


def replies_from_file(name: str, file: Path, sets: Sequence[ItemSet], place: Path) -> ModelWeights:
    """What is measured of the replies in `file`; `place`: a folder for what the engine reads. Raises InvalidRequestError."""
    given = read_replies(file)
    target = place / f"{name}.jsonl"
    write_lines(target, match_replies(file, given, sets))
    return ModelWeights(name, target, replies=True)


def read_replies(file: Path) -> RepliesBySet:
    """Predictions by set ("" where none is named) and id. Raises InvalidRequestError."""
    try:
        return {(str(row.get("set", "")), str(row["id"])): row["prediction"] for row in read_lines(file)}
    except (ValueError, LookupError, TypeError, AttributeError, OSError) as e:
        raise InvalidRequestError(f"replies {file}: {e!r}; {FORM}") from e


def match_replies(file: Path, given: RepliesBySet, sets: Sequence[ItemSet]) -> Iterator[dict[str, str]]:
    """One reply to each item. Raises InvalidRequestError naming the first that is missing."""
    for one in sets:
        for item in one.items:
            text = given.get((one.name, item.id), given.get(("", item.id)) if len(sets) == 1 else None)
            if not isinstance(text, str):
                raise InvalidRequestError(
                    f"replies {file}: none to item {item.id} of {one.name}, {len(given)} are there; {FORM}"
                )
            yield {"set": one.name, "id": item.id, "prediction": text}


ASK = "ask"
STOPS = 4  # that the protocol knows; the others are cut here


def ask_served_model(
    run_tools: StandaloneRunTools, name: str, model: str, sets: Sequence[ItemSet], seed: int, say: Progress
) -> tuple[ModelWeights, int]:
    """The model's replies as a file that is measured, and how many it refused to give: those are empty, and wrong.

    What was answered before a kill is not asked again. Raises InfrastructureError where the endpoint or the allowance gave out.
    """
    place, jobs = run_tools.run.root / "work" / ASK, run_tools.run.root / "jobs"
    asked = list(reply_requests(model, sets, seed))
    limits = job_limits(run_tools.settings, run_tools.settings.benchmark_timeout, run_tools.run.root)
    access = served_access(run_tools.settings, model)
    command = batch_command(run_tools.engine("opencompass"), asked, place, access, limits, run_tools.settings)
    run_tools.launch(jobs, ASK, command, retry=True, access=access)
    status = wait_for(run_tools, jobs, ASK, say, lambda: run_tools.stop(jobs, ASK))
    if not exited_cleanly(status):
        why = last_error_line(run_tools, jobs, ASK) or f"its job ended as {status.state}; see {jobs}"
        raise InfrastructureError(f"{model} could not be asked: {why}; what it has answered is kept")
    heard = read_answers(place, asked)
    missing = [answer for answer in heard.values() if answer.text is None]
    if missing and len(missing) == len(heard):
        raise InfrastructureError(f"{model} answered 0 of {len(heard)} questions: {missing[0].why}")
    file = place.with_name(f"{ASK}.replies") / f"{name}.jsonl"
    write_lines(file, reply_rows(sets, heard))
    return ModelWeights(name, file, replies=True), len(missing)


def reply_requests(model: str, sets: Sequence[ItemSet], seed: int) -> Iterator[LlmRequest]:
    """Each item of each set as its benchmark wants it asked."""
    for given in sets:
        for number, item in enumerate(given.items):
            yield reply_request(
                model, given.benchmark, f"{given.name} {item.id}", render_prompt(given.benchmark, item), seed + number
            )


def reply_request(model: str, benchmark: Benchmark, name: str, text: str, seed: int) -> LlmRequest:
    """One question: a chat, or a text to be continued. Drawn answers get a seed each; without drawing it says nothing."""
    body: dict[str, Any] = {
        "model": model,
        "temperature": benchmark.temperature,
        "max_tokens": benchmark.max_new_tokens,
    }
    if benchmark.temperature:
        body |= {"seed": seed, "top_p": benchmark.top_p}
    if benchmark.stop:
        body["stop"] = list(benchmark.stop[:STOPS])
    if benchmark.form == "base":
        return LlmRequest(name, "completions", {**body, "prompt": text}, spare=("seed",))
    return LlmRequest(
        name, "chat/completions", {**body, "messages": [{"role": "user", "content": text}]}, spare=("seed",)
    )


def reply_rows(sets: Sequence[ItemSet], heard: Mapping[str, LlmAnswer]) -> Iterator[dict[str, str]]:
    """As the engine reads them."""
    for given in sets:
        for item in given.items:
            text = heard[f"{given.name} {item.id}"].text or ""
            yield {"set": given.name, "id": item.id, "prediction": cut_at_stops(text, given.benchmark.stop)}


def cut_at_stops(text: str, stops: Sequence[str]) -> str:
    """What stands before the first of the texts that end a reply."""
    return text[: min((at for stop in stops if (at := text.find(stop)) >= 0), default=len(text))]
