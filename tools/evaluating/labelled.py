"""The judge before labelled replies: what people say of them, what he says, how far both agree."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from tuneloop.core.errors import SetupError, WorldError
from tuneloop.core.files import digest, read_lines
from tuneloop.core.layout import RunFolder
from tuneloop.core.locks import exclusive
from tuneloop.core.run import SandboxKind
from tuneloop.core.settings import Settings
from tuneloop.tools.agreement import Agreement, agreement
from tuneloop.tools.asking import answers, asking_command
from tuneloop.tools.evaluating.desk import Desk, last_word, wait_for
from tuneloop.tools.judge import check_judge, code_of, request, verdict
from tuneloop.tools.limits import job_limits
from tuneloop.tools.llm_proxy.access import judge_access, upstreams
from tuneloop.tools.models import Progress
from tuneloop.tools.pipeline import good

JUDGE = "judge"


class Labelled(BaseModel):
    """A reply, and whether a person calls it right."""

    model_config = ConfigDict(frozen=True, strict=True)

    question: str
    answer: str
    reply: str
    correct: bool


def read_labelled(file: Path) -> list[Labelled]:
    """The rows. Raises SetupError naming what is wrong."""
    form = "right is JSON Lines with question, answer, reply and correct"
    try:
        found = [Labelled.model_validate(row) for row in read_lines(file)]
    except (OSError, ValueError, ValidationError) as e:
        first = e.errors()[0]["msg"] if isinstance(e, ValidationError) else e
        raise SetupError(f"labelled replies {file}: {first}; {form}") from e
    if not found:
        raise SetupError(f"labelled replies {file}: none in it; {form}")
    return found


def judge_labelled(file: Path, settings: Settings, say: Progress, sandbox: SandboxKind) -> tuple[Agreement, str]:
    """How far the judge agrees, and who he is. What he has answered before is not asked again.

    Raises SetupError where there is no judge or nothing to judge, WorldError where he does not answer.
    """
    rows = read_labelled(file)
    access = judge_access(settings)
    if access is None:
        raise SetupError("no judge: set FT_JUDGE_MODEL, and FT_JUDGE_API_KEY or FT_JUDGE_API_BASE")
    check_judge(settings, access)
    model = access.models[0]
    asked = [request(f"r{i}", model, row.question, row.answer, row.reply) for i, row in enumerate(rows)]
    base = upstreams(settings)["judge"].base
    own = RunFolder(settings.home.evaluations / f"judge-{digest(base, *(one.key for one in asked))}")
    desk = Desk(own, settings, sandbox, say=say)
    place, jobs = desk.run.root / "work" / JUDGE, desk.run.root / "jobs"
    desk.run.root.mkdir(parents=True, exist_ok=True)
    with exclusive(desk.run.lock):
        limits = job_limits(settings, settings.benchmark_timeout, desk.run.root)
        command = asking_command(desk.engine("opencompass"), asked, place, access, limits, settings)
        desk.launch(jobs, JUDGE, command, retry=True, access=access)
        status = wait_for(desk, jobs, JUDGE, say, lambda: desk.stop(jobs, JUDGE))
        if not good(status):
            why = last_word(desk, jobs, JUDGE) or f"its job ended as {status.state}; see {jobs}"
            raise WorldError(f"{model} could not be asked: {why}; what it has answered is kept")
        heard = answers(place, asked)
    return agreement(labels(rows, [heard[one.id].text for one in asked])), model


def labels(rows: Sequence[Labelled], said: Sequence[str | None]) -> list[tuple[bool, bool | None]]:
    """What people say, and what he says, None: nothing that can be read."""
    found = []
    for row, text in zip(rows, said, strict=True):
        word = verdict(text, code_of(row.question, row.answer, row.reply))
        found.append((row.correct, None if word is None else word == "correct"))
    return found
