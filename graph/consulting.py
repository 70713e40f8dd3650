"""What rules cannot read a chat model reads: asked once a message, recorded like every other answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import yaml

from tuneloop.agents.chat.desk import Desk
from tuneloop.agents.listener import LISTENER, Understood
from tuneloop.core.bridge import run_sync
from tuneloop.core.brief import Brief, Budget, Task
from tuneloop.core.directive import Question
from tuneloop.core.errors import RecipeError, WorldError
from tuneloop.core.files import digest, read_json, write_atomic, write_json
from tuneloop.core.model_call import transcript_of
from tuneloop.core.quoting import defused, fenced
from tuneloop.graph.context import Context
from tuneloop.graph.desk import opened
from tuneloop.graph.obeying import written
from tuneloop.graph.telling import answered, plan
from tuneloop.prompts import fill
from tuneloop.tools.runs.journal import load_journal

LONGEST = 120.0  # seconds until the user is told that no model answers
FACT = 4000  # letters of one fact
ABOUT = ("status", "failure", "directives")


def consult(ctx: Context, message: str, text: str, unclear: Sequence[str], sources: Sequence[str]) -> Understood:
    """What the model makes of it; once answered, always the same. Raises RecipeError when no model gives an answer."""
    number = int(digest(message)[:8], 16)
    place = ctx.run.answers / f"{LISTENER.name}.{number}"
    file, told = Path(f"{place}.json"), Path(f"{place}.md")
    if file.is_file():
        return Understood.model_validate(read_json(file))
    if not told.is_file():  # asked again after a kill, it is the same question: what is paid is not paid twice
        write_atomic(told, question(ctx, text, unclear, sources))
    calls = transcript_of(ctx.run.answers, LISTENER.name, number)
    found = run_sync(_asked(ctx, told.read_text(encoding="utf-8"), calls))
    write_json(file, found.model_dump(mode="json"))
    return found


async def _asked(ctx: Context, prompt: str, calls: Path) -> Understood:
    from tuneloop.agents.chat.planner import ChatPlanner  # langchain is slow to import

    desk = Desk(
        ctx.settings, lambda _: calls, ctx.run.models, ctx.emit, opened(ctx.run, ctx.settings, who=LISTENER.name)
    )
    try:
        async with asyncio.timeout(LONGEST):
            return await ChatPlanner(desk).answer(LISTENER.name, prompt, brief(ctx), None, Understood)
    except TimeoutError as e:
        raise RecipeError(f"no answer within {LONGEST:g} s", culprit="planner") from e
    except WorldError as e:
        raise RecipeError(str(e), culprit="planner") from e
    except RecipeError as e:
        raise RecipeError(str(e.__context__ or e), culprit="planner") from e


def brief(ctx: Context) -> Brief:
    """As much of one as there is before the run has its setup, too."""
    spec = ctx.bench.spec
    task = Task(
        benchmark=spec.benchmark, domain="", description="", answer="", prompt="", metric="", direction="max",
        max_new_tokens=0, base_model=spec.base_model, datasets=spec.datasets, row_limit=0, seed=spec.seed, device="",
    )  # fmt: skip
    return Brief(task=task, experiment=ctx.state.experiment, budget=Budget(experiments_left=None, seconds_left=None))


def question(ctx: Context, text: str, unclear: Sequence[str], sources: Sequence[str]) -> str:
    """What the model is told."""
    return fill(
        "listener", facts=fenced("text", defused(facts(ctx, sources))), message=text, unclear="; ".join(unclear)
    )


def facts(ctx: Context, sources: Sequence[str]) -> str:
    """What the run's files say."""
    known = [answered(ctx, Question.model_validate({"about": about})) for about in ABOUT]
    best = load_journal(ctx.run).best
    values = written(ctx.run, best.number) if best else {}
    config = yaml.safe_dump(values, sort_keys=True) if values else "none yet"
    known += [plan(ctx), f"Data sources: {', '.join(sources[:50])}", f"train.yaml of the best experiment:\n{config}"]
    return "\n\n".join(part[:FACT] for part in known)
