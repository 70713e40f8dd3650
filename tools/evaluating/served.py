"""Replies of a model at an OpenAI-compatible endpoint: asked by a job behind a door, so that no key enters a sandbox."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tuneloop.core.benchmark import Benchmark
from tuneloop.core.errors import WorldError
from tuneloop.core.files import write_lines
from tuneloop.tools.asking import Answer, Request, answers, asking_command
from tuneloop.tools.benchmarks import prompt
from tuneloop.tools.evaluating.desk import Desk, last_word, wait_for
from tuneloop.tools.evaluation import ItemSet, Weights
from tuneloop.tools.limits import job_limits
from tuneloop.tools.llm_proxy.access import served_access
from tuneloop.tools.models import Progress
from tuneloop.tools.pipeline import good

ASK = "ask"
STOPS = 4  # that the protocol knows; the others are cut here


def ask(desk: Desk, name: str, model: str, sets: Sequence[ItemSet], seed: int, say: Progress) -> tuple[Weights, int]:
    """The model's replies as a file that is measured, and how many it refused to give: those are empty, and wrong.

    What was answered before a kill is not asked again. Raises WorldError where the endpoint or the allowance gave out.
    """
    place, jobs = desk.run.root / "work" / ASK, desk.run.root / "jobs"
    asked = list(requests(model, sets, seed))
    limits = job_limits(desk.settings, desk.settings.benchmark_timeout, desk.run.root)
    access = served_access(desk.settings, model)
    command = asking_command(desk.engine("opencompass"), asked, place, access, limits, desk.settings)
    desk.launch(jobs, ASK, command, retry=True, access=access)
    status = wait_for(desk, jobs, ASK, say, lambda: desk.stop(jobs, ASK))
    if not good(status):
        why = last_word(desk, jobs, ASK) or f"its job ended as {status.state}; see {jobs}"
        raise WorldError(f"{model} could not be asked: {why}; what it has answered is kept")
    heard = answers(place, asked)
    missing = [answer for answer in heard.values() if answer.text is None]
    if missing and len(missing) == len(heard):
        raise WorldError(f"{model} answered 0 of {len(heard)} questions: {missing[0].why}")
    file = place.with_name(f"{ASK}.replies") / f"{name}.jsonl"
    write_lines(file, replies(sets, heard))
    return Weights(name, file, replies=True), len(missing)


def requests(model: str, sets: Sequence[ItemSet], seed: int) -> Iterator[Request]:
    """Each item of each set as its benchmark wants it asked."""
    for given in sets:
        for number, item in enumerate(given.items):
            yield request(
                model, given.benchmark, f"{given.name} {item.id}", prompt(given.benchmark, item), seed + number
            )


def request(model: str, benchmark: Benchmark, name: str, text: str, seed: int) -> Request:
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
        return Request(name, "completions", {**body, "prompt": text}, spare=("seed",))
    return Request(name, "chat/completions", {**body, "messages": [{"role": "user", "content": text}]}, spare=("seed",))


def replies(sets: Sequence[ItemSet], heard: Mapping[str, Answer]) -> Iterator[dict[str, str]]:
    """As the engine reads them."""
    for given in sets:
        for item in given.items:
            text = heard[f"{given.name} {item.id}"].text or ""
            yield {"set": given.name, "id": item.id, "prediction": cut(text, given.benchmark.stop)}


def cut(text: str, stops: Sequence[str]) -> str:
    """What stands before the first of the texts that end a reply."""
    return text[: min((at for stop in stops if (at := text.find(stop)) >= 0), default=len(text))]
