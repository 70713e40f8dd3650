"""Make every recorded answer of a run again, from its transcript alone: no provider, no tool, the same code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tuneloop.agents.agent import Agent
from tuneloop.agents.chat.planner_context import PlannerContext
from tuneloop.agents.config_coder import CONFIG_CODER
from tuneloop.agents.critic import CRITIC
from tuneloop.agents.data_engineer import DATA_ENGINEER
from tuneloop.agents.listener import LISTENER
from tuneloop.agents.researcher import RESEARCHER
from tuneloop.agents.validator import VALIDATOR
from tuneloop.core.async_bridge import run_sync
from tuneloop.core.brief import Brief
from tuneloop.core.errors import RecipeError
from tuneloop.core.files import digest, json_text, read_text
from tuneloop.core.layout import RunFolder
from tuneloop.core.settings import Settings
from tuneloop.core.transcript import (
    TRANSCRIPT_SUFFIX,
    ModelCall,
    Tokens,
    TranscriptEnded,
    TranscriptStarted,
    list_transcripts,
    read_transcript,
    transcript_attempt,
    transcript_experiment,
)

AGENTS: dict[str, Agent[Any]] = {
    a.name: a for a in (RESEARCHER, DATA_ENGINEER, CONFIG_CODER, VALIDATOR, CRITIC, LISTENER)
}


@dataclass(frozen=True)
class ReplayedAnswer:
    """One answer; `says`: what differs, or why it can't be told."""

    experiment: int
    agent: str
    attempt: int
    verdict: Literal["same", "differs", "unfinished"]
    says: str = ""


class NullLedger:
    """Nothing is asked, nothing is booked."""

    def begin(self, agent: str, model: str, tokens: Tokens) -> str:
        """Never called."""
        raise AssertionError((agent, model, tokens))

    def end(self, name: str, call: ModelCall) -> None:
        """Never called."""
        raise AssertionError((name, call))


def replay(run: RunFolder, settings: Settings) -> Iterator[ReplayedAnswer]:
    """Each recorded answer, made again and compared with the one on disk."""
    for path in list_transcripts(run):
        agent, attempt = path.name.split(".")[0], transcript_attempt(path)
        verdict, says = _compared(path, agent, settings)
        yield ReplayedAnswer(transcript_experiment(path), agent, attempt, verdict, says)


def _compared(path: Path, agent: str, settings: Settings) -> tuple[Literal["same", "differs", "unfinished"], str]:
    lines = list(read_transcript(path))
    told = next((line for line in reversed(lines) if isinstance(line, TranscriptStarted)), None)
    ended = next((line for line in reversed(lines) if isinstance(line, TranscriptEnded)), None)
    if agent not in AGENTS:
        return "unfinished", "this version has no such agent"
    if told is None or ended is None:
        return "unfinished", "the answer was interrupted and has no end"
    place = path.with_name(path.name.removesuffix(TRANSCRIPT_SUFFIX))
    prompt = read_text(place.with_name(f"{place.name}.md"))
    if digest(prompt) != told.prompt:
        return "differs", f"{place.name}.md is not what the agent was told"
    made = _replay_answer(path, AGENTS[agent], prompt, told, settings)
    return _compare_with_file(made, ended, place.with_name(f"{place.name}.json"))


def _compare_with_file(made: str, ended: TranscriptEnded, file: Path) -> tuple[Literal["same", "differs"], str]:
    """Against the file, byte for byte; where there is none, against the reason."""
    before = read_text(file) if file.is_file() else ended.error
    if made == before:
        return "same", ""
    at = next((i for i, (a, b) in enumerate(zip(made, before, strict=False)) if a != b), min(len(made), len(before)))
    return "differs", f"at letter {at}: {made[at : at + 80]!r}, recorded {before[at : at + 80]!r}"


def _replay_answer(path: Path, agent: Agent[Any], prompt: str, told: TranscriptStarted, settings: Settings) -> str:
    """The answer's file as it would be written now, or the error that there would be."""
    from tuneloop.agents.chat.planner import ChatPlanner  # langchain is slow to import

    model = told.planner.removeprefix("chat ")
    as_then = {"chat_model": model, "chat_steps": told.steps, "chat_tokens": told.tokens}
    context = PlannerContext(
        settings.model_copy(update=as_then), lambda _: path, path, lambda _: None, lambda: nullcontext(NullLedger())
    )
    planner = ChatPlanner(context, live=False)
    try:
        answer = run_sync(planner.answer(agent.name, prompt, Brief.model_validate(told.brief), None, agent.answer))
    except RecipeError as e:
        return str(e)
    return json_text(answer.model_dump(mode="json"))
