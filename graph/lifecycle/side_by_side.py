"""Experiments side by side: each has checkpoints of its own, and none waits for the slowest.

Ideas are proposed one at a time, in order of number; experiments are closed in the same order, each compared with the incumbent of
that moment. An idea knows the results up to `RunSpec.window` numbers before its own, so the journal does not say who was first.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import replace
from typing import Any

from langchain_core.runnables import RunnableConfig

from tuneloop.core.async_bridge import pause
from tuneloop.core.budget import Limits, SpendingLine
from tuneloop.core.errors import ApprovalNeededError, InfrastructureError, PausedError
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import Settings
from tuneloop.graph.budget.gate import budget_question
from tuneloop.graph.budget.limits import is_finish_requested
from tuneloop.graph.build import EXPERIMENT, build_experiment_graph
from tuneloop.graph.checkpoints.store import RunCheckpoints
from tuneloop.graph.context import Context
from tuneloop.graph.lifecycle.rebuild import open_experiment_stage, with_open_experiment
from tuneloop.graph.nodes.critique import free_disk
from tuneloop.graph.outcomes.stopping import is_over, missing_limits
from tuneloop.graph.state import VERSION, State, stored_state
from tuneloop.graph.steering.inbox_listener import end_nodes
from tuneloop.tools.budget.limits import current_limits
from tuneloop.tools.jobs.gpu_share import assign_gpus, free_share, release_gpus
from tuneloop.tools.jobs.machine import find_device, memory_limit
from tuneloop.tools.runs.approvals import open_question
from tuneloop.tools.runs.journal import load_journal

OTHER_FAILED = "the session ended with another experiment of this run"
LOOK = 0.5  # seconds between looks for an answer, or whether the caller has given up


class StepsDoneError(PausedError):
    """So many nodes are done as were wanted: those at work are brought to their end."""


def shared_settings(settings: Settings, slots: int, *, local: bool) -> Settings:
    """Those of one of several experiments on this machine: they share its memory."""
    if not local or settings.job_memory:
        return settings
    return settings.model_copy(update={"job_memory": memory_limit(settings) // slots})


def open_experiments(run: RunFolder, store: RunCheckpoints, spent: float) -> dict[int, State]:
    """Number → state of each experiment that has begun and is not over: as stored, else as its files prove."""
    found = dict[int, State]()
    number = len(load_journal(run).experiments) + 1
    while (folder := run.experiment(number)).root.is_dir():
        place, mine = open_experiment_stage(folder), store.of_experiment(number)
        if place.stage == "research":
            break
        state = readable_state(mine)
        if state is None or not is_current(state, number, place.attempt):
            mine.forget()
            state = with_open_experiment(State(version=VERSION, run_id=run.id, spent=spent), run, number)
        if state.stage == "critique" and folder.scores.is_file():
            state = state.model_copy(update={"stage": "evaluate"})  # another engine or device may have come since
            release_gpus(run, number)
        found[number] = state
        number += 1
    return found


def readable_state(mine: RunCheckpoints) -> State | None:
    """What is stored of an experiment; None where nothing is, or it is damaged: so far only the run's thread was read."""
    try:
        values = mine.values()
    except (ValueError, TypeError, LookupError):  # DamagedError is a ValueError
        return None
    return stored_state(values) if values else None


def is_current(state: State, number: int, attempt: int) -> bool:
    """Whether a stored state is of this version and experiment, and knows of its last repair."""
    known = state.version == VERSION and state.experiment == number and state.stage in EXPERIMENT
    return known and state.stage != "research" and state.attempt >= attempt


class SideBySide:
    """The experiments of a run that are open in one session. `steps`: nodes after which it pauses."""

    def __init__(self, ctx: Context, store: RunCheckpoints, steps: int | None) -> None:
        spec = ctx.run_tools.spec
        local = spec.executor == "local"
        settings = shared_settings(ctx.settings, spec.parallel, local=local)
        self.ctx, self.store, self.steps = ctx, store, steps
        self.slots, self.window = spec.parallel, spec.window
        self.shares = local and find_device() != "cpu"  # of this machine's GPUs
        self.graph = build_experiment_graph(settings).compile(checkpointer=store.saver, name="experiment")
        self.began, self.nodes, self.guard = time.monotonic(), 0, threading.Lock()
        self.open = open_experiments(ctx.run, store, ctx.state.spent)
        self.work = dict[Future[State], int]()
        self.early = set[int]()  # asked for an idea again when all before are over
        self.asked = dict[int, ApprovalNeededError]()
        self.allowed = dict[
            int, tuple[Limits, bool]
        ]()  # as an experiment went on last: a question about limits is of them
        self.stopped, self.ending, self.short = False, False, list[SpendingLine]()  # stopped: by the researcher

    def run(self) -> State:
        """Work until no experiment is open and none shall follow; the state of the run then.

        Raises PausedError when somebody asked for it, ApprovalNeededError when nothing goes on without an answer,
        InfrastructureError. Jobs of the other experiments go on after an error, and are paused after a pause.
        """
        with ThreadPoolExecutor(self.slots + 2, "tuneloop-experiment") as pool:
            try:
                while self.submit(pool):
                    pause(0)  # raises where the caller has given up
                    for future in wait(self.work, LOOK, FIRST_COMPLETED).done:
                        self.take(future)
            except BaseException as e:
                if (worse := self.end(e)) is not e:
                    raise worse from e
                raise
        if self.asked:
            raise next(iter(self.asked.values()))
        if self.open:
            raise InfrastructureError(f"no GPU is free for experiment {min(self.open)}: another one holds its share")
        if self.short and self.ctx.interactive and not is_finish_requested(self.ctx.run):
            raise ApprovalNeededError("a person is asked whether it may go on", budget_question(self.short))
        free_disk(self.ctx)
        closed = len(load_journal(self.ctx.run).experiments)
        return self.state(closed, "finish")

    def state(self, experiment: int, stage: str) -> State:
        """A state of the run at this moment."""
        spent = self.ctx.state.spent + time.monotonic() - self.began
        return State(version=VERSION, run_id=self.ctx.run.id, experiment=experiment, stage=stage, spent=spent)

    def submit(self, pool: ThreadPoolExecutor) -> bool:
        """Begin whatever can begin; whether anything is at work."""
        self.drop_answered()
        closed = len(load_journal(self.ctx.run).experiments)
        for number in self.waiting():
            if self.may_begin(number, closed):
                self.begin(pool, number)
        if self.may_open(number := max([closed, *self.open]) + 1, closed):
            self.open[number] = self.state(number - 1, "research")
            self.begin(pool, number)
        return bool(self.work)

    def drop_answered(self) -> None:
        """Let experiments go on whose question was answered; one about limits is looked at again when they are others."""
        if not self.asked:
            return
        unanswered, allowed = open_question(self.ctx.run) is not None, self.limits()
        self.asked = {
            number: e
            for number, e in self.asked.items()
            if (self.allowed[number] == allowed if e.question else unanswered)
        }

    def limits(self) -> tuple[Limits, bool]:
        """What the run may spend now, and whether it is to finish."""
        return current_limits(self.ctx.run, self.ctx.run_tools.spec), is_finish_requested(self.ctx.run)

    def waiting(self) -> Iterator[int]:
        """Open experiments at which nobody works and of which nothing is asked, in order."""
        yield from (n for n in sorted(self.open) if n not in self.work.values() and n not in self.asked)

    def busy(self) -> int:
        """Slots that are taken: one that is explained by the critic has left its own."""
        return sum(self.open[number].stage != "critique" for number in self.work.values())

    def may_begin(self, number: int, closed: int) -> bool:
        """Whether an open experiment may go on from where it stands."""
        if self.open[number].stage == "critique":
            return number == closed + 1
        if number in self.early and closed < number - 1:
            return False
        return self.busy() < self.slots and self.has_gpus(number)

    def has_gpus(self, number: int) -> bool:
        """Whether there is a share of the GPUs for an experiment; one that is asked about keeps its own."""
        return not self.shares or bool(self.share(number))

    def share(self, number: int) -> list[int]:
        """The GPUs that an experiment gets; [] while none are free."""
        others = [n for n, other in self.open.items() if n != number and other.stage != "critique"]
        return free_share(self.ctx.run, number, others, self.slots)

    def may_open(self, number: int, closed: int) -> bool:
        """Whether the next idea may be asked for: ideas come one at a time, with the results that count for them.

        Limits are looked at each time: a user may move them, and what is set aside for open experiments comes back.
        """
        proposing = any(state.stage == "research" for state in self.open.values())
        self.short = []
        if self.stopped or proposing or self.busy() >= self.slots or number > closed + self.window:
            return False
        here = replace(self.ctx, state=self.state(number - 1, "research"))
        if is_over(here) or not self.has_gpus(number):
            return False
        self.short = missing_limits(here)
        return not self.short

    def begin(self, pool: ThreadPoolExecutor, number: int) -> None:
        """Have a thread go on with an experiment."""
        spent, self.allowed[number] = self.state(0, "").spent, self.limits()
        state = self.open[number] = self.open[number].model_copy(update={"spent": spent})
        if self.shares and state.stage != "critique":
            assign_gpus(self.ctx.run, number, self.share(number))
        self.work[pool.submit(copy_context().run, self.advance, number, state)] = number

    def advance(self, number: int, state: State) -> State:
        """Work up to the next stop: after `research`, before `critique`, at the end."""
        thread = self.store.of_experiment(number)
        config: RunnableConfig = {**thread.config, "recursion_limit": 1_000_000}
        config["configurable"] = {**thread.config["configurable"], "slot": number, "interactive": self.ctx.interactive}
        stops: dict[str, Any] = {"interrupt_after": ["research"]}
        stops["interrupt_before"] = [] if state.stage == "critique" else ["critique"]
        for update in self.graph.stream(state, config, stream_mode="updates", durability="sync", **stops):
            asked = update.pop("__interrupt__", ())
            if asked:
                question = str(asked[0].value.get("question", ""))
                raise ApprovalNeededError("a person is asked whether it may go on", question)
            for changes in update.values():
                state = state.model_copy(update=changes)
                self.count_node()
        return state

    def count_node(self) -> None:
        """Raises PausedError when the session ends: no further node begins."""
        with self.guard:
            self.nodes += 1
            if self.ending or (self.steps is not None and self.nodes >= self.steps):
                raise StepsDoneError(f"{self.nodes} nodes done")

    def take(self, future: Future[State]) -> None:
        """What a thread brought. Raises what it raised, but for a question: others go on meanwhile."""
        number = self.work.pop(future)
        try:
            state = future.result()
        except ApprovalNeededError as e:
            self.asked[number] = e
            # Nodes may have been over, and repairs spent, before the one that asks.
            self.open[number] = readable_state(self.store.of_experiment(number)) or self.open[number]
            return
        self.open[number] = state
        if state.stage == "research" and not self.ctx.run.experiment(number).result.is_file():
            self.early.add(number)
        elif state.stage in ("research", "finish"):
            self.stopped = self.stopped or state.stage == "finish"  # the researcher finds nothing left
            del self.open[number]
            self.store.of_experiment(number).forget()
            self.store.shrink()
            self.store.publish()

    def end(self, error: BaseException) -> BaseException:
        """Have the other threads end: in the middle of a node, or after it where so many nodes were wanted; what to raise.

        A pause gives way to an error that another thread meets meanwhile.
        """
        self.ending = True
        while True:
            over = all(future.done() for future in self.work)  # before their errors are read
            found = [error, *(e for future in self.work if future.done() and (e := future.exception()))]
            if isinstance(error, PausedError):
                error = next((e for e in found if not isinstance(e, PausedError)), error)
            if over:
                return error
            if not all(isinstance(e, StepsDoneError | ApprovalNeededError) for e in found):
                paused = isinstance(error, PausedError)
                end_nodes(self.ctx.run, None if paused else InfrastructureError(OTHER_FAILED))
            wait(self.work, LOOK)
