"""Asks many prompts at once, says how far it is, and stops where asking on is in vain."""

from __future__ import annotations

import functools
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from tuneloop_models.answers import Answer, Prompt, Wanted
from tuneloop_models.endpoint import Door, Down, EndpointError, NoAnswer, Said, Spent

GONE = 75  # exit status: the endpoint, not the script, is at fault
TRIES = 2  # of a provider that is at fault, each of which the proxy has tried five times
IN_VAIN = 20  # requests one after the other without an answer before nothing more is asked
DEBUG_EACH, DEBUG_ALL = 10, 50  # prompts that are asked with --debug: of one call, of the script
THREADS = 256
DRAWINGS = 100  # numbers of samples that one prompt has for its tries
BREATH = 0.5  # seconds between lines of progress
SPARE = ("temperature", "top_p", "seed")  # what some models do not take

Fields = Mapping[str, type] | Iterable[str]


def ask_many(
    prompts: Iterable[Prompt],
    *,
    pool: str = "strong",
    system: str = "",
    fields: Fields = (),
    accept: Callable[[int, Answer], bool] | None = None,
    tries: int = 0,
    sample: int = 0,
    **options: Any,
) -> list[Answer]:
    """An answer for each prompt, a text or a list of messages; the same prompt again is drawn again.

    `pool`: strong or weak. `fields`: names, or names with types, of a JSON object that is wanted. `accept(i, answer)`:
    whether the answer to `prompts[i]` will do; what will not is drawn again, `tries` times in all. `sample`: another number
    draws everything anew. `options`: max_tokens, temperature and what else the model takes. With --debug the first few
    prompts are asked. Raises ValueError when there is no such pool.
    """
    wanted = Wanted(system, dict(fields) if isinstance(fields, Mapping) else dict.fromkeys(fields, object), options)
    asking = Asking(session(), models(pool), wanted, accept, tries or (2 if fields or accept else 1))
    return asking.all([wanted.turns(prompt) for prompt in prompts], sample)


def models(pool: str) -> list[str]:
    """Names of a pool, or of the other one where it has none. Raises ValueError."""
    pools = {name: json.loads(os.environ.get(f"{name.upper()}_MODEL_POOL", "[]")) for name in ("strong", "weak")}
    if pool not in pools:
        raise ValueError(f"pool {pool!r}; right is strong or weak")
    found: list[str] = pools.pop(pool) or next(iter(pools.values()))
    if not found:
        raise ValueError("this run names no models")
    return found


def allowance() -> dict[str, Any]:
    """What the job and the run have used, of what: {"job": {"requests": {"used", "limit"}, "tokens", "money"}, "run"}."""
    found: dict[str, Any] = session().door.get("allowance")
    return found


@dataclass
class Session:
    """What all calls of a script share."""

    door: Door
    workers: int
    debug: bool
    debugged: int = 0
    down: int = 0
    refused: int = 0
    heard: int = 0
    gone: str = ""
    hopeless: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def few(self, count: int) -> int:
        """How many of a call's prompts are asked."""
        if not self.debug:
            return count
        found = min(count, DEBUG_EACH, DEBUG_ALL - self.debugged)
        self.debugged += found
        return found

    def note(self, trouble: Exception | None) -> None:
        """How a request ended; decides when asking on is in vain."""
        with self.lock:
            if trouble is None:
                self.heard, self.down, self.refused = self.heard + 1, 0, 0
            elif isinstance(trouble, EndpointError):
                self.gone = str(trouble)
            elif isinstance(trouble, Down):
                self.down += 1
                if self.down >= max(IN_VAIN, 2 * self.workers):
                    self.gone = str(trouble)
            elif not isinstance(trouble, Spent):
                self.refused += 1
                if not self.heard and self.refused >= IN_VAIN:
                    self.hopeless = f"the first {IN_VAIN} requests were refused: {trouble}"


@functools.cache
def session() -> Session:
    """The script's."""
    return Session(Door(TRIES), int(os.environ.get("FT_API_MAX_WORKERS", "8")), "--debug" in sys.argv)


@dataclass(frozen=True)
class Row:
    """One prompt: its place, its conversation, the number of its first drawing, the model that it begins with."""

    number: int
    turns: list[dict[str, Any]]
    drawing: int
    start: int


def numbered(asked: Sequence[list[dict[str, Any]]], sample: int) -> list[Row]:
    """Rows whose drawings and models hang on what is asked, not on where it stands; what is asked again is drawn again."""
    seen: Counter[str] = Counter()
    rows = []
    for number, turns in enumerate(asked):
        key = sha256(json.dumps(turns, sort_keys=True).encode()).hexdigest()
        drawing = sample + seen[key]
        rows.append(Row(number, turns, drawing * DRAWINGS, int(key[:8], 16) + drawing))
        seen[key] += 1
    return rows


@dataclass
class Asking:
    """One call of `ask_many`."""

    session: Session
    models: list[str]
    wanted: Wanted
    accept: Callable[[int, Answer], bool] | None
    tries: int
    done: int = 0
    total: int = 0
    kept: int = 0
    told: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)
    reasons: Counter[str] = field(default_factory=Counter)

    def all(self, asked: Sequence[list[dict[str, Any]]], sample: int) -> list[Answer]:
        """Everything, in order. Ends the script where the endpoint is gone."""
        self.total = self.session.few(len(asked))
        if not self.total:
            return [self.not_asked()] * len(asked)
        rows = numbered(asked[: self.total], sample)
        self.say()
        with ThreadPoolExecutor(min(self.session.workers, self.total, THREADS)) as threads:
            answers = list(threads.map(self.one, rows))
        if self.session.down and not self.session.heard:
            self.leave(f"no request was answered: {self.reasons.most_common(1)[0][0]}")
        self.sum_up()
        return answers + [self.not_asked()] * (len(asked) - self.total)

    def not_asked(self) -> Answer:
        """With --debug."""
        return Answer(None, why=f"not asked: --debug asks {DEBUG_EACH} prompts of a call, {DEBUG_ALL} in all")

    def one(self, row: Row) -> Answer:
        """The answer to one prompt, drawn until one will do."""
        found = Answer(None)
        for again in range(self.tries):
            try:
                found = self.wanted.read(self.heard(row, again))
            except NoAnswer as e:
                found = Answer(None, why=str(e)[:500])
                break
            except EndpointError as e:
                self.leave(str(e))
            if found.text is not None and self.accept is not None and not self.accept(row.number, found):
                found = Answer(None, why="no answer was accepted", model=found.model, kept=found.kept)
            if found.text is not None:
                break
        self.tell(found)
        return found

    def heard(self, row: Row, again: int) -> Said:
        """What the first of the models says that can be asked. Raises NoAnswer, EndpointError."""
        if self.session.gone:
            raise EndpointError(self.session.gone)
        if self.session.hopeless:
            raise NoAnswer(self.session.hopeless)
        trouble: Exception = NoAnswer("there are no models")
        for step in range(len(self.models)):
            model = self.models[(row.start + step) % len(self.models)]
            body = {"model": model, "messages": row.turns, "sample": row.drawing + again, **self.wanted.options}
            try:
                found = self.session.door.ask("chat/completions", body, SPARE)
                self.session.note(None)
            except NoAnswer as e:
                trouble = e
                if not isinstance(e, Down):
                    break
            except EndpointError as e:
                trouble = e
            else:
                return found
        self.session.note(trouble)
        raise trouble

    def tell(self, answer: Answer) -> None:
        """Progress, now and then as a line that the live view understands."""
        with self.lock:
            self.done += 1
            self.kept += answer.kept
            if answer.text is None:
                self.reasons[answer.why.partition(",")[0][:200]] += 1  # without the numbers that differ from row to row
            if self.done == self.total or time.monotonic() - self.told >= BREATH:
                self.say()

    def say(self) -> None:
        """One line of it."""
        self.told = time.monotonic()
        counts = {"done": self.done, "total": self.total, "kept": self.kept, "without": sum(self.reasons.values())}
        print(json.dumps({**counts, "unit": "answers"}), flush=True)

    def sum_up(self) -> None:
        """What came of it, why some have no answer, and what was used."""
        without = sum(self.reasons.values())
        print(f"models: {self.total} asked, {self.total - without} answered, {self.kept} of them paid for before")
        for why, count in self.reasons.most_common(3):
            print(f"models: {count} without an answer: {why}")
        for name in self.session.door.left_out:
            print(f"models: the endpoint does not take {name}; it was left out")
        try:
            job = allowance()["job"]
        except NoAnswer:
            return
        used = (
            f"{b['used']:g} {a}" + (f" of {b['limit']:g}" if b["limit"] is not None else "") for a, b in job.items()
        )
        print(f"models: this job has used {', '.join(used)}", flush=True)

    def leave(self, why: str) -> None:
        """End the script at once: other requests are still under way, and the proxy keeps what they bring."""
        with self.lock:
            sys.stdout.flush()
            print(f"models: {why}; what was answered is kept, and is not paid again", file=sys.stderr, flush=True)
            os._exit(GONE)
