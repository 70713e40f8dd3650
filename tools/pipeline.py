"""One evaluation in one folder: answers, then the code of replies run, then what is left to the judge; a job each.

`evaluation.json` says what the cache had; every job is found running or over, or launched. What is known is not made again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tuneloop.core.benchmark import Benchmark
from tuneloop.core.errors import LimitReachedError, RecipeError, WorldError
from tuneloop.core.job import JobStatus, Limits
from tuneloop.core.score import Score
from tuneloop.tools import judge
from tuneloop.tools.asking import SPENT, Request, answers, asking_command
from tuneloop.tools.cache import EvaluationCache, open_cache
from tuneloop.tools.engines import Engine
from tuneloop.tools.evaluation import How, ItemSet, Pair, Weights, conditions, evaluation_command, keys_of
from tuneloop.tools.execution import execution_command, with_results
from tuneloop.tools.limits import job_limits
from tuneloop.tools.llm_proxy.access import Access
from tuneloop.tools.plan import Plan, read_plan, usable, write_plan
from tuneloop.tools.progress import last_progress
from tuneloop.tools.verdicts import Row, check_replies, read_rows, score_of
from tuneloop.tools.workbench import Workbench, job_report

ANSWER, EXECUTE, JUDGE = JOBS = ("evaluate", "execute", "judge")


@dataclass(frozen=True)
class Folder:
    """Where `benchmarks` are measured. `judge`: who decides what the rule did not call right, None: the rule alone."""

    bench: Workbench
    where: Path
    benchmarks: tuple[Benchmark, ...]
    judge: Access | None = None

    @property
    def jobs(self) -> Path:
        """Where its jobs are."""
        return self.where / "jobs"

    def work(self, job: str) -> Path:
        """What a job may write."""
        return self.where / "work" / job

    @property
    def stages(self) -> tuple[str, ...]:
        """Jobs that there may be, one after the other."""
        executed = any(one.executed for one in self.benchmarks)
        judged = self.judge is not None and any(one.judge for one in self.benchmarks)
        return tuple(name for name, there in zip(JOBS, (True, executed, judged), strict=True) if there)


@dataclass(frozen=True)
class Evaluation:
    """`models` on `sets`, one for each benchmark of the folder.

    `retry`: an answering job that failed is started again; `worker`: the engine whose warm worker forks it, "" none.
    """

    folder: Folder
    models: tuple[Weights, ...]
    sets: tuple[ItemSet, ...]
    how: How
    retry: bool = False
    worker: str = ""

    @property
    def bench(self) -> Workbench:
        """Who launches."""
        return self.folder.bench

    @property
    def named(self) -> dict[str, ItemSet]:
        """The sets by name."""
        return {one.name: one for one in self.sets}

    @cached_property
    def engine(self) -> Engine:
        """OpenCompass's."""
        return self.bench.engine("opencompass")

    @cached_property
    def cache(self) -> EvaluationCache:
        """Results of this home."""
        return open_cache(self.bench.settings)

    @cached_property
    def plain_keys(self) -> dict[Pair, str]:
        """Keys of what the rule alone says."""
        return keys_of(self.engine, self.models, self.sets, self.how, self.cache.memory)

    @cached_property
    def keys(self) -> dict[Pair, str]:
        """Keys of what is asked for here."""
        sets, by = self.named, self.folder.judge
        return {
            pair: judge.key_of(key, self.bench.settings, by) if by and sets[pair[1]].benchmark.judge else key
            for pair, key in self.plain_keys.items()
        }

    @property
    def limits(self) -> Limits:
        """Of each of its jobs."""
        return job_limits(self.bench.settings, self.bench.settings.benchmark_timeout, self.folder.where)


def advance(e: Evaluation) -> str | None:
    """Launch the next job unless it runs; its name, None when everything is there. Doing it again changes nothing.

    Raises RecipeError when answers were left that cannot be read, WorldError when nothing can be launched.
    """
    plan = decided(e)
    if not plan.missing:
        e.bench.stop(e.folder.jobs, ANSWER)
    elif not over_well(e, launch_answers(e, plan)):
        return ANSWER
    rows = answered(e, plan)
    if code := coded(e, plan, rows):
        if not over_well(e, launch_code(e, code)):
            return EXECUTE
        rows |= with_results(e.folder.work(EXECUTE), code)
    if (asked := left_to_judge(e, rows)) and not over_well(e, launch_judge(e, asked)):
        return JUDGE
    return None


def decided(e: Evaluation) -> Plan:
    """What the cache had when it was first asked; of a judged set also what the rule alone said."""
    e.folder.where.mkdir(parents=True, exist_ok=True)
    plan = read_plan(e.folder.where)
    if plan is None or plan.keys != e.keys or not usable(plan, e.sets):
        plan = Plan(e.keys, {**e.cache.find(e.plain_keys, e.named), **e.cache.find(e.keys, e.named)})
        write_plan(e.folder.where, plan)
    return plan


def launch_answers(e: Evaluation, plan: Plan) -> Path:
    """Answers and the rule's verdicts, by the engine."""
    command = evaluation_command(
        e.engine,
        e.models,
        e.sets,
        e.folder.work(ANSWER),
        e.how,
        keys=e.keys,
        without=plan.known,
        limits=e.limits,
    )
    return e.bench.launch(e.folder.jobs, ANSWER, command, retry=e.retry, worker=e.worker)


def launch_code(e: Evaluation, rows: Mapping[Pair, Row]) -> Path:
    """What the code of replies gives."""
    for pair, row in rows.items():
        check_replies(row, e.named[pair[1]])
    command = execution_command(e.engine, rows, e.named, e.folder.work(EXECUTE), e.limits)
    return e.bench.launch(e.folder.jobs, EXECUTE, command, retry=e.retry)


def launch_judge(e: Evaluation, asked: list[Request]) -> Path:
    """What the judge says. A failure tells of its endpoint, never of the model: it is asked again."""
    assert e.folder.judge is not None, "only with a judge is anything left to it"
    command = asking_command(e.engine, asked, e.folder.work(JUDGE), e.folder.judge, e.limits, e.bench.settings)
    return e.bench.launch(e.folder.jobs, JUDGE, command, retry=True, access=e.folder.judge)


def answered(e: Evaluation, plan: Plan) -> dict[Pair, Row]:
    """Replies that are there: from the cache and from the job."""
    fresh = read_rows(e.folder.work(ANSWER), plan.missing) if plan.missing else {}
    return {**plan.known, **fresh}


def coded(e: Evaluation, plan: Plan, rows: Mapping[Pair, Row]) -> dict[Pair, Row]:
    """Replies whose code has to be run."""
    return {pair: rows[pair] for pair in plan.missing if e.named[pair[1]].benchmark.executed}


def left_to_judge(e: Evaluation, rows: Mapping[Pair, Row]) -> list[Request]:
    """What is to be asked of the judge."""
    if e.folder.judge is None:
        return []
    judged = {pair: row for pair, row in rows.items() if e.named[pair[1]].benchmark.judge}
    return judge.requests(e.folder.judge.models[0], judged, e.named)


def over_well(e: Evaluation, job: Path) -> bool:
    """Whether a job has ended as it should."""
    return good(e.bench.sandbox.poll(job))


def status(f: Folder) -> dict[str, Any]:
    """State of the job at hand and items done; over without a job where all is known."""
    plan = read_plan(f.where)
    cached = sum(len(row.get("items", ())) for row in plan.known.values()) if plan else 0
    state, job = at_hand(f, plan)
    if job is None and plan and not plan.missing:
        note = f"{cached} answers from the cache, nothing was launched"
        return job_report(JobStatus(state="over"), done=cached, total=cached, unit="items", note=note)
    done, total = last_progress(job / "log.txt") if job else (0, 0)
    note = f"and {cached} from the cache" if cached else ""
    return job_report(state, done=done, total=total, unit="items", note=note)


def at_hand(f: Folder, plan: Plan | None) -> tuple[JobStatus, Path | None]:
    """The last job that was launched of those whose predecessors have ended well."""
    found: tuple[JobStatus, Path | None] = (JobStatus(state="absent"), None)
    for name in wanted(f, plan):
        state, job = f.bench.status(f.jobs, name)
        if job is None:
            break
        found = state, job
        if not good(state):
            break
    return found


def wanted(f: Folder, plan: Plan | None) -> list[str]:
    """The stages without those for which the cache left nothing."""
    if plan is None:
        return list(f.stages)
    names = {name for _, name in plan.missing}
    code = any(one.executed and one.name in names for one in f.benchmarks)
    return [name for name in f.stages if name == JUDGE or (code if name == EXECUTE else names)]


def proof(f: Folder) -> Path | None:
    """The file by which the job at hand will say that it is over; None before a launch."""
    job = at_hand(f, read_plan(f.where))[1]
    return job / "exit.json" if job else None


def stop(f: Folder) -> None:
    """End whatever runs of it."""
    for name in JOBS:
        f.bench.stop(f.jobs, name)


def collect(e: Evaluation) -> dict[Pair, Score]:
    """The scores, every item verified.

    Raises RecipeError, LimitReachedError where the judge could not be asked everything, WorldError where its endpoint failed.
    """
    plan = read_plan(e.folder.where)
    if plan is None:
        raise RecipeError("evaluation failed. never launched", culprit="config")
    if plan.missing:
        check_job(e, ANSWER)
    rows = answered(e, plan)
    if code := coded(e, plan, rows):
        check_job(e, EXECUTE)
        rows |= with_results(e.folder.work(EXECUTE), code)
    if asked := left_to_judge(e, rows):
        for pair in plan.missing:
            keep(e, e.plain_keys[pair], rows[pair], pair)  # another judge, or none, will find it
        check_judge(e)
        rows = judge.with_judge(rows, answers(e.folder.work(JUDGE), asked), e.named)
    return {pair: keep(e, plan.keys[pair], row, pair) for pair, row in rows.items()}


def keep(e: Evaluation, key: str, row: Row, pair: Pair) -> Score:
    """The score of a row, which the cache then has."""
    given = e.named[pair[1]]
    score = score_of(row, given)
    e.cache.write(key, row, given)
    return score.model_copy(update={"measured_with": conditions(e.engine, e.how)})


def check_job(e: Evaluation, name: str) -> None:
    """Raises RecipeError unless it has ended well."""
    state, job = e.bench.status(e.folder.jobs, name)
    if job is None or not good(state):
        why = e.bench.why(job, state) if job else "never launched"
        raise RecipeError(f"evaluation failed. {why}", culprit="config")


def check_judge(e: Evaluation) -> None:
    """Raises LimitReachedError or WorldError unless the judge was asked everything: what was not judged is not wrong."""
    try:
        check_job(e, JUDGE)
    except RecipeError as failed:
        if f": {SPENT}" in str(failed):
            raise LimitReachedError(f"the judge could not be asked everything: {failed}") from failed
        raise WorldError(f"the judge did not answer: {failed}; what it has answered is kept") from failed


def good(state: JobStatus) -> bool:
    """Whether a job ended by itself with status 0."""
    return state.exit is not None and state.exit.ok
