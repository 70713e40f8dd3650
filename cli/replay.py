"""`tuneloop replay`: make a run's decisions again from its transcripts, without a provider."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import click

from tuneloop.cli.select_run import select_run
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.formatting import plain_lines, printable
from tuneloop.core.settings import load_settings
from tuneloop.core.transcript import (
    TRANSCRIPT_SUFFIX,
    Message,
    ModelCall,
    ToolUse,
    TranscriptEnded,
    TranscriptLine,
    TranscriptStarted,
    list_transcripts,
    read_transcript,
    transcript_experiment,
)

# A transcript for people: every call of a model and of a tool, as Markdown.

LONGEST = 4000


def transcript_markdown(title: str, experiment: int, lines: Iterable[TranscriptLine]) -> str:
    """The whole conversation, in order."""
    return (
        "\n\n".join((f"# Experiment {experiment}: {title}", *(part for line in lines for part in _line(line)))) + "\n"
    )


def _line(line: TranscriptLine) -> Iterator[str]:
    match line:
        case TranscriptStarted():
            yield f"{line.agent} ({line.planner}) is asked for a {line.want}."
        case ModelCall():
            yield from _call(line)
        case ToolUse():
            said = line.result if line.error is None else f"Error: {line.error}"
            yield f"**{line.name}** {_short(json.dumps(line.arguments, ensure_ascii=False))}"
            yield _fenced(said if isinstance(said, str) else json.dumps(said, ensure_ascii=False, indent=1))
        case TranscriptEnded():
            yield f"## Answer of {line.by}" if line.answer is not None else f"## No answer: {line.error}"
            if line.answer is not None:
                yield _answer(line.answer)


def _call(call: ModelCall) -> Iterator[str]:
    for message in call.messages:
        if message.role in ("system", "user"):
            yield f"## {message.role}\n\n{_fenced(message.text)}"
    t = call.tokens
    cost = "" if call.cost is None else f", cost {call.cost:.4f}"
    took = f"{t.into} tokens in ({t.cached} cached), {t.out} out, {call.seconds:.1f} s{cost}"
    if call.reply is None:
        yield f"## {call.model} failed ({took})\n\n{_fenced(call.error)}"
        return
    yield f"## {call.model} ({took})"
    yield from _reply(call.reply)


def _reply(reply: Message) -> Iterator[str]:
    if reply.text.strip() or reply.refused:
        yield _fenced(reply.refused or reply.text)
    for ask in reply.asks:
        yield f"wants **{ask.name}** {_short(ask.broken or json.dumps(ask.arguments, ensure_ascii=False))}"


def _answer(answer: dict[str, Any]) -> str:
    long = {name: value for name, value in answer.items() if isinstance(value, str) and "\n" in value}
    short = {name: value for name, value in answer.items() if name not in long}
    return "\n\n".join(
        (_fenced(json.dumps(short, ensure_ascii=False, indent=1)), *(f"{n}:\n\n{_fenced(v)}" for n, v in long.items()))
    )


def _short(text: str) -> str:
    return f"`{text[:200].replace('`', chr(39))}{'…' if len(text) > 200 else ''}`"


def _fenced(text: str) -> str:
    """Behind a fence that nothing in the text can close; of long texts beginning and end."""
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]}\n… {len(text) - LONGEST} letters …\n{text[-LONGEST // 2 :]}"
    mark = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{mark}\n{text}\n{mark}"


EXAMPLES = """\b
Examples:
  tuneloop replay
  tuneloop replay --show --experiment 2 > talk.md
"""


@click.command(epilog=EXAMPLES)
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--show", is_flag=True, help="Print what was said, as Markdown, and make nothing again.")
@click.option("--experiment", type=click.IntRange(1), help="Only this one.")
@click.pass_context
def command(ctx: click.Context, run_id: str | None, show: bool, experiment: int | None) -> None:
    """Repeat what the chat models of RUN (the newest) decided, from the recorded calls; exit code 1: an answer differs."""
    from tuneloop.graph.agent_calls.replay import replay

    settings = load_settings()
    run = select_run(settings.home, run_id)
    files = [path for path in list_transcripts(run) if experiment in (None, transcript_experiment(path))]
    if not files:
        raise InvalidRequestError(
            f"run {run.id} has no transcript: the offline policy decides by itself, and asks nobody"
        )
    if show:
        for path in files:
            click.echo(
                plain_lines(
                    transcript_markdown(
                        path.name.removesuffix(TRANSCRIPT_SUFFIX), transcript_experiment(path), read_transcript(path)
                    )
                )
            )
        return
    differ = 0
    for found in replay(run, settings):
        if not experiment or found.experiment == experiment:
            differ += found.verdict == "differs"
            says = f": {printable(found.says, 400)}" if found.says else ""
            click.echo(f"experiment {found.experiment}, {found.agent}, attempt {found.attempt}: {found.verdict}{says}")
    ctx.exit(1 if differ else 0)
