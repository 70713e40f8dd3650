"""One evaluation in one folder: answers, then replies run or verified, then what is left to the judge; a job each.

`evaluation.json` says what the cache had; every job is found running or over, or launched. What is known is not made again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tuneloop.core.catalog import Benchmark
from tuneloop.core.errors import InfrastructureError, LimitReachedError, RecipeError
from tuneloop.core.job import JobReport, JobStatus, Limits
from tuneloop.core.score import Score
from tuneloop.tools.engines import Engine
from tuneloop.tools.evaluation.cache import (
    EvaluationCache,
    EvaluationPlan,
    is_plan_usable,
    open_cache,
    read_plan,
    write_plan,
)
from tuneloop.tools.evaluation.code_execution import add_code_results, execution_command, verification_command
from tuneloop.tools.evaluation.item_sets import (
    EvaluationConditions,
    ItemSet,
    ModelWeights,
    Pair,
    conditions_hash,
    evaluation_command,
    result_keys,
)
from tuneloop.tools.jobs.machine import job_limits
from tuneloop.tools.jobs.progress import last_progress
from tuneloop.tools.jobs.run_tools import RunTools
from tuneloop.tools.llm_proxy.access import Access
from tuneloop.tools.llm_proxy.batch import SPENT, LlmRequest, batch_command, read_answers
from tuneloop.tools.scoring import llm_judge
from tuneloop.tools.scoring.verdicts import Row, check_replies, make_score, read_rows

ANSWER, EXECUTE, VERIFY, VERIFY_RG, JUDGE = JOBS = ("evaluate", "execute", "verify", "verify_reasoning_gym", "judge")
RUN = (EXECUTE, VERIFY, VERIFY_RG)
VERIFIERS = {"": VERIFY, "reasoning_gym": VERIFY_RG}  # the stage of verifiers that run in an engine


@dataclass(frozen=True)
class EvaluationFolder:
    """Where `benchmarks` are measured. `judge`: who decides what the rule did not call right, None: the rule alone."""

    run_tools: RunTools
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
        run = {run_stage(one) for one in self.benchmarks}
        judged = {JUDGE} if self.judge is not None and any(one.judge for one in self.benchmarks) else set()
        return tuple(name for name in JOBS if name in {ANSWER, *run, *judged})


def run_stage(benchmark: Benchmark) -> str:
    """The job that runs a benchmark's replies, "" where none does."""
    if not benchmark.executed:
        return ""
    return VERIFIERS[benchmark.engine] if benchmark.verified else EXECUTE


@dataclass(frozen=True)
class Evaluation:
    """`models` on `sets`, one for each benchmark of the folder.

    `retry`: an answering job that failed is started again; `worker`: the engine whose warm worker forks it, "" none.
    """

    folder: EvaluationFolder
    models: tuple[ModelWeights, ...]
    sets: tuple[ItemSet, ...]
    how: EvaluationConditions
    retry: bool = False
    worker: str = ""

    @property
    def run_tools(self) -> RunTools:
        """Who launches."""
        return self.folder.run_tools

    @property
    def sets_by_name(self) -> dict[str, ItemSet]:
        """The sets by name."""
        return {one.name: one for one in self.sets}

    @cached_property
    def engine(self) -> Engine:
        """OpenCompass's."""
        return self.run_tools.engine("opencompass")

    @cached_property
    def cache(self) -> EvaluationCache:
        """Results of this home."""
        return open_cache(self.run_tools.settings)

    @cached_property
    def plain_keys(self) -> dict[Pair, str]:
        """Keys of what the rule alone says."""
        return result_keys(self.engine, self.models, self.sets, self.how, self.cache.memory)

    @cached_property
    def keys(self) -> dict[Pair, str]:
        """Keys of what is asked for here."""
        sets, by = self.sets_by_name, self.folder.judge
        return {
            pair: llm_judge.judged_key(key, self.run_tools.settings, by)
            if by and sets[pair[1]].benchmark.judge
            else key
            for pair, key in self.plain_keys.items()
        }

    @property
    def limits(self) -> Limits:
        """Of each of its jobs."""
        return job_limits(self.run_tools.settings, self.run_tools.settings.benchmark_timeout, self.folder.where)


def advance_evaluation(e: Evaluation) -> str | None:
    """Launch the next job unless it runs; its name, None when everything is there. Doing it again changes nothing.

    Raises RecipeError when answers were left that cannot be read, InfrastructureError when nothing can be launched.
    """
    plan = cached_results(e)
    if not plan.missing:
        e.run_tools.stop(e.folder.jobs, ANSWER)
    elif not has_succeeded(e, launch_answers(e, plan)):
        return ANSWER
    rows = collect_answers(e, plan)
    for stage in RUN:
        if to_run := replies_to_run(e, plan, rows, stage):
            if not has_succeeded(e, launch_run(e, stage, to_run)):
                return stage
            rows |= add_code_results(e.folder.work(stage), to_run)
    if (asked := replies_for_judge(e, rows)) and not has_succeeded(e, launch_judge(e, asked)):
        return JUDGE
    return None


def cached_results(e: Evaluation) -> EvaluationPlan:
    """What the cache had when it was first asked; of a judged set also what the rule alone said."""
    e.folder.where.mkdir(parents=True, exist_ok=True)
    plan = read_plan(e.folder.where)
    if plan is None or plan.keys != e.keys or not is_plan_usable(plan, e.sets):
        plan = EvaluationPlan(
            e.keys, {**e.cache.find(e.plain_keys, e.sets_by_name), **e.cache.find(e.keys, e.sets_by_name)}
        )
        write_plan(e.folder.where, plan)
    return plan


def launch_answers(e: Evaluation, plan: EvaluationPlan) -> Path:
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
    return e.run_tools.launch(e.folder.jobs, ANSWER, command, retry=e.retry, worker=e.worker)


def launch_run(e: Evaluation, stage: str, rows: Mapping[Pair, Row]) -> Path:
    """What the code of replies gives, or what verifiers say of them."""
    for pair, row in rows.items():
        check_replies(row, e.sets_by_name[pair[1]])
    engines = {name: engine for engine, name in VERIFIERS.items()}
    make = verification_command if stage in engines else execution_command
    engine = e.run_tools.engine(own) if (own := engines.get(stage)) else e.engine
    command = make(engine, rows, e.sets_by_name, e.folder.work(stage), e.limits)
    return e.run_tools.launch(e.folder.jobs, stage, command, retry=e.retry)


def launch_judge(e: Evaluation, asked: list[LlmRequest]) -> Path:
    """What the judge says. A failure tells of its endpoint, never of the model: it is asked again."""
    assert e.folder.judge is not None, "only with a judge is anything left to it"
    command = batch_command(e.engine, asked, e.folder.work(JUDGE), e.folder.judge, e.limits, e.run_tools.settings)
    return e.run_tools.launch(e.folder.jobs, JUDGE, command, retry=True, access=e.folder.judge)


def collect_answers(e: Evaluation, plan: EvaluationPlan) -> dict[Pair, Row]:
    """Replies that are there: from the cache and from the job."""
    fresh = read_rows(e.folder.work(ANSWER), plan.missing) if plan.missing else {}
    return {**plan.known, **fresh}


def replies_to_run(e: Evaluation, plan: EvaluationPlan, rows: Mapping[Pair, Row], stage: str) -> dict[Pair, Row]:
    """Replies that the job `stage` runs or verifies."""
    return {pair: rows[pair] for pair in plan.missing if run_stage(e.sets_by_name[pair[1]].benchmark) == stage}


def replies_for_judge(e: Evaluation, rows: Mapping[Pair, Row]) -> list[LlmRequest]:
    """What is to be asked of the judge."""
    if e.folder.judge is None:
        return []
    judged = {pair: row for pair, row in rows.items() if e.sets_by_name[pair[1]].benchmark.judge}
    return llm_judge.judge_requests(e.folder.judge.models[0], judged, e.sets_by_name)


def has_succeeded(e: Evaluation, job: Path) -> bool:
    """Whether a job has ended as it should."""
    return exited_cleanly(e.run_tools.sandbox.poll(job))


def evaluation_status(f: EvaluationFolder) -> JobReport:
    """State of the job at hand and items done; over without a job where all is known."""
    plan = read_plan(f.where)
    cached = sum(len(row.get("items", ())) for row in plan.known.values()) if plan else 0
    state, job = current_job(f, plan)
    if job is None and plan and not plan.missing:
        note = f"{cached} answers from the cache, nothing was launched"
        return JobReport.of(JobStatus(state="over"), done=cached, total=cached, unit="items", note=note)
    done, total = last_progress(job / "log.txt") if job else (0, 0)
    note = f"and {cached} from the cache" if cached else ""
    return JobReport.of(state, done=done, total=total, unit="items", note=note)


def current_job(f: EvaluationFolder, plan: EvaluationPlan | None) -> tuple[JobStatus, Path | None]:
    """The last job that was launched of those whose predecessors have ended well."""
    found: tuple[JobStatus, Path | None] = (JobStatus(state="absent"), None)
    for name in needed_stages(f, plan):
        state, job = f.run_tools.status(f.jobs, name)
        if job is None:
            break
        found = state, job
        if not exited_cleanly(state):
            break
    return found


def needed_stages(f: EvaluationFolder, plan: EvaluationPlan | None) -> list[str]:
    """The stages without those for which the cache left nothing."""
    if plan is None:
        return list(f.stages)
    names = {name for _, name in plan.missing}
    run = {run_stage(one) for one in f.benchmarks if one.name in names}
    return [name for name in f.stages if name == JUDGE or (name in run if name in RUN else names)]


def proof_file(f: EvaluationFolder) -> Path | None:
    """The file by which the job at hand will say that it is over; None before a launch."""
    job = current_job(f, read_plan(f.where))[1]
    return job / "exit.json" if job else None


def stop_jobs(f: EvaluationFolder) -> None:
    """End whatever runs of it."""
    for name in JOBS:
        f.run_tools.stop(f.jobs, name)


def collect_scores(e: Evaluation) -> dict[Pair, Score]:
    """The scores, every item verified.

    Raises RecipeError, LimitReachedError where the judge could not be asked everything, InfrastructureError where its
    endpoint failed.
    """
    plan = read_plan(e.folder.where)
    if plan is None:
        raise RecipeError("evaluation failed. never launched", culprit="config")
    if plan.missing:
        check_job(e, ANSWER)
    rows = collect_answers(e, plan)
    for stage in RUN:
        if run := replies_to_run(e, plan, rows, stage):
            check_job(e, stage)
            rows |= add_code_results(e.folder.work(stage), run)
    if asked := replies_for_judge(e, rows):
        for pair in plan.missing:
            store_score(e, e.plain_keys[pair], rows[pair], pair)  # another judge, or none, will find it
        check_judge(e)
        rows = llm_judge.add_judge_verdicts(rows, read_answers(e.folder.work(JUDGE), asked), e.sets_by_name)
    return {pair: store_score(e, plan.keys[pair], row, pair) for pair, row in rows.items()}


def store_score(e: Evaluation, key: str, row: Row, pair: Pair) -> Score:
    """The score of a row, which the cache then has."""
    given = e.sets_by_name[pair[1]]
    score = make_score(row, given)
    e.cache.write(key, row, given)
    return score.model_copy(update={"measured_with": conditions_hash(e.engine, e.how)})


def check_job(e: Evaluation, name: str) -> None:
    """Raises RecipeError unless it has ended well."""
    state, job = e.run_tools.status(e.folder.jobs, name)
    if job is None or not exited_cleanly(state):
        why = e.run_tools.failure_text(job, state) if job else "never launched"
        raise RecipeError(f"evaluation failed. {why}", culprit="config")


def check_judge(e: Evaluation) -> None:
    """Raises LimitReachedError or InfrastructureError unless the judge was asked everything: what was not judged is not wrong."""
    try:
        check_job(e, JUDGE)
    except RecipeError as failed:
        if f": {SPENT}" in str(failed):
            raise LimitReachedError(f"the judge could not be asked everything: {failed}") from failed
        raise InfrastructureError(f"the judge did not answer: {failed}; what it has answered is kept") from failed


def exited_cleanly(state: JobStatus) -> bool:
    """Whether a job ended by itself with status 0."""
    return state.exit is not None and state.exit.ok
