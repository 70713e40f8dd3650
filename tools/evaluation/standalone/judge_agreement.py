"""Agreement of the judge with people's labels of replies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from tuneloop.core.errors import InfrastructureError, InvalidRequestError
from tuneloop.core.files import digest, read_lines
from tuneloop.core.layout import RunFolder
from tuneloop.core.lease import hold_lease
from tuneloop.core.locks import exclusive
from tuneloop.core.run_spec import SandboxKind
from tuneloop.core.settings import Settings
from tuneloop.tools.evaluation.jobs import exited_cleanly
from tuneloop.tools.evaluation.standalone.run_tools import StandaloneRunTools, last_error_line, wait_for
from tuneloop.tools.hub.models import Progress
from tuneloop.tools.jobs.machine import job_limits
from tuneloop.tools.llm_proxy.access import judge_access, upstreams
from tuneloop.tools.llm_proxy.batch import batch_command, read_answers
from tuneloop.tools.scoring.llm_judge import check_judge, judge_request, parse_verdict, verdict_code
from tuneloop.tools.statistics.agreement import Agreement, judge_agreement

JUDGE = "judge"


class LabelledReply(BaseModel):
    """A reply, and whether a person calls it right."""

    model_config = ConfigDict(frozen=True, strict=True)

    question: str
    answer: str
    reply: str
    correct: bool


def read_labelled(file: Path) -> list[LabelledReply]:
    """The rows. Raises InvalidRequestError naming what is wrong."""
    form = "right is JSON Lines with question, answer, reply and correct"
    try:
        found = [LabelledReply.model_validate(row) for row in read_lines(file)]
    except (OSError, ValueError, ValidationError) as e:
        first = e.errors()[0]["msg"] if isinstance(e, ValidationError) else e
        raise InvalidRequestError(f"labelled replies {file}: {first}; {form}") from e
    if not found:
        raise InvalidRequestError(f"labelled replies {file}: none in it; {form}")
    return found


def judge_labelled(file: Path, settings: Settings, say: Progress, sandbox: SandboxKind) -> tuple[Agreement, str]:
    """How far the judge agrees, and which model it is. Earlier verdicts are reused.

    Raises InvalidRequestError where there is no judge or nothing to judge, InfrastructureError where it does not answer.
    """
    rows = read_labelled(file)
    access = judge_access(settings)
    if access is None:
        raise InvalidRequestError("no judge: set FT_JUDGE_MODEL, and FT_JUDGE_API_KEY or FT_JUDGE_API_BASE")
    check_judge(settings, access)
    model = access.models[0]
    asked = [judge_request(f"r{i}", model, row.question, row.answer, row.reply) for i, row in enumerate(rows)]
    base = upstreams(settings)["judge"].base
    own = RunFolder(settings.home.evaluations / f"judge-{digest(base, *(one.key for one in asked))}")
    run_tools = StandaloneRunTools(own, settings, sandbox, say=say)
    place, jobs = run_tools.run.root / "work" / JUDGE, run_tools.run.root / "jobs"
    run_tools.run.root.mkdir(parents=True, exist_ok=True)
    with hold_lease(settings.home.root), exclusive(run_tools.run.lock):
        limits = job_limits(settings, settings.benchmark_timeout, run_tools.run.root)
        command = batch_command(run_tools.engine("opencompass"), asked, place, access, limits, settings)
        run_tools.launch(jobs, JUDGE, command, retry=True, access=access)
        status = wait_for(run_tools, jobs, JUDGE, say, lambda: run_tools.stop(jobs, JUDGE))
        if not exited_cleanly(status):
            why = last_error_line(run_tools, jobs, JUDGE) or f"its job ended as {status.state}; see {jobs}"
            raise InfrastructureError(f"{model} could not be asked: {why}; what it has answered is kept")
        heard = read_answers(place, asked)
    return judge_agreement(pair_labels(rows, [heard[one.id].text for one in asked])), model


def pair_labels(rows: Sequence[LabelledReply], said: Sequence[str | None]) -> list[tuple[bool, bool | None]]:
    """People's label and the judge's verdict; None: no readable verdict."""
    found = []
    for row, text in zip(rows, said, strict=True):
        word = parse_verdict(text, verdict_code(row.question, row.answer, row.reply))
        found.append((row.correct, None if word is None else word == "correct"))
    return found
