"""What a training reads and what carries loss, token by token, beside the prompts that are evaluated."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from tuneloop.core.errors import InfrastructureError, ToolError
from tuneloop.core.files import digest, digest_file, read_json, write_json
from tuneloop.core.job import Command
from tuneloop.core.layout import ExperimentFolder, job_input_file
from tuneloop.core.untrusted import read_untrusted_json
from tuneloop.tools.config.config_text import train_config
from tuneloop.tools.config.finalize import finalize_values
from tuneloop.tools.config.grpo_config import is_grpo
from tuneloop.tools.config.model_card import read_model_card
from tuneloop.tools.evaluation.standalone.run_tools import last_error_line, wait_for
from tuneloop.tools.hub.models import Progress
from tuneloop.tools.jobs.machine import ENGINES, job_limits
from tuneloop.tools.jobs.run_tools import RunTools

SCRIPT = ENGINES / "llamafactory" / "show_tokens.py"
JOB = "show_tokens"
SECONDS = 300.0
Format = Literal["chat", "raw"]


@dataclass(frozen=True)
class TokenCase:
    """What is asked of the engine: a row under a training's `config`, and the `prompt` that the evaluation asks.

    `asked`: the format in which the training claims to be evaluated.
    """

    name: str
    asked: Format
    config: Mapping[str, Any]
    instruction: str
    output: str
    prompt: str


@dataclass(frozen=True)
class Token:
    """One token of a training row; `loss`: whether it is learned."""

    id: int
    text: str
    loss: bool


@dataclass(frozen=True)
class RowTokens:
    """A row under one config; `chat` and `raw`: ids of the evaluated prompt in that format, None without a template."""

    name: str
    asked: Format
    tokens: tuple[Token, ...]
    chat: tuple[int, ...] | None
    raw: tuple[int, ...]

    @property
    def evaluated(self) -> tuple[int, ...] | None:
        """The prompt in the format that the training claims."""
        return self.chat if self.asked == "chat" else self.raw

    @property
    def prefix_matches(self) -> bool:
        """Whether what is evaluated is what the row begins with."""
        wanted = self.evaluated
        return wanted is not None and tuple(token.id for token in self.tokens[: len(wanted)]) == wanted

    @property
    def pieces(self) -> list[tuple[bool, list[Token]]]:
        """Neighbours that are read, or that carry loss, together."""
        return [(loss, list(group)) for loss, group in groupby(self.tokens, key=lambda token: token.loss)]

    @property
    def counts(self) -> dict[str, Any]:
        """For JSON: how many tokens there are, and whether training and evaluation agree."""
        return {
            "format": self.asked,
            "total": len(self.tokens),
            "with_loss": sum(token.loss for token in self.tokens),
            "prompt": len(self.evaluated or ()),
            "trained_prefix_is_evaluated_prompt": self.prefix_matches,
        }

    def facts(self) -> dict[str, Any]:
        """For JSON: every token."""
        evaluated = {"chat": self.chat and list(self.chat), "raw": list(self.raw)}
        return {
            "name": self.name,
            **self.counts,
            "tokens": [vars(token) for token in self.tokens],
            "evaluated": evaluated,
        }


def encode_rows(
    run_tools: RunTools, place: Path, cases: Sequence[TokenCase], options: Mapping[str, Any], say: Progress
) -> list[RowTokens]:
    """Every case by the engine's own code, in a job below `place`; what was encoded before is not encoded again.

    `options`: arguments of the chat template. Raises InfrastructureError where the job failed.
    """
    asked = [vars(case) for case in cases]
    key = digest(
        json.dumps([asked, dict(options)], sort_keys=True),
        run_tools.setup.model_fingerprint,
        run_tools.engine("llamafactory").identity,
        digest_file(SCRIPT),
    )
    return read_tokens(run_job(run_tools, place, asked, options, key, say), cases)


def experiment_tokens(run_tools: RunTools, folder: ExperimentFolder, place: int, say: Progress) -> RowTokens:
    """Row `place` (from 0) of an experiment's data under its config. Raises ToolError for a row that is not there."""
    rows = read_json(folder.data / "data.json")
    if not 0 <= place < len(rows):
        raise ToolError(f"row {place} does not exist; experiment {folder.number} has {len(rows)} rows, numbered from 0")
    row, root, values = rows[place], run_tools.setup.model_root, train_config(folder).values
    if is_grpo(values):
        raise ToolError(f"experiment {folder.number} trains with GRPO, which learns from replies that it makes itself")
    prompt = "\n".join(filter(None, (row["instruction"], row.get("input", ""))))
    config = nowhere_config(values, root, run_tools.training_seed)
    case = TokenCase(f"row {place}", asked_format(run_tools), config, prompt, row["output"], prompt)
    return encode_rows(run_tools, folder.root, [case], {}, say)[0]


def asked_format(run_tools: RunTools) -> Format:
    """How the run's evaluation asks: in the model's chat template, or in plain text."""
    raw = run_tools.setup.benchmark.form == "base" or read_model_card(run_tools.setup.model_root).chat_template is None
    return "raw" if raw else "chat"


def nowhere_config(values: Mapping[str, Any], model: Path, seed: int) -> dict[str, Any]:
    """A whole config of a training that never runs."""
    return finalize_values(values, model=model, data=model, output=Path("/nowhere"), seed=seed, device="cpu")


def run_job(
    tools: RunTools, place: Path, cases: list[dict[str, Any]], options: Mapping[str, Any], key: str, say: Progress
) -> Path:
    """The file that the job wrote. Raises InfrastructureError."""
    engine, work = tools.engine("llamafactory"), place / "work" / JOB
    given, out = job_input_file(place / "work", JOB), work / "tokens.json"
    work.mkdir(parents=True, exist_ok=True)
    root = tools.setup.model_root
    write_json(given / "job.json", {"model": str(root), "out": str(out), "options": dict(options), "cases": cases})
    command = Command(
        argv=(str(engine.python), str(SCRIPT), str(given / "job.json")),
        cwd=str(work),
        env={**tools.environment(work), **engine.env, "PATH": f"{engine.bin}:/usr/bin:/bin"},
        read=(*engine.readable, str(SCRIPT), str(given), str(root)),
        write=(str(work),),
        limits=job_limits(tools.settings, SECONDS, place),
        beside=True,  # whoever asks waits for it
        key=key,
    )
    jobs = place / "jobs"
    tools.launch(jobs, JOB, command, retry=True)
    status = wait_for(tools, jobs, JOB, say, lambda: tools.stop(jobs, JOB))
    if status.exit is None or not status.exit.ok:
        _, job = tools.status(jobs, JOB)
        why = last_error_line(tools, jobs, JOB) or (tools.failure_text(job, status) if job else "never launched")
        raise InfrastructureError(f"tokens could not be made: {why}")
    return out


def read_tokens(file: Path, cases: Sequence[TokenCase]) -> list[RowTokens]:
    """What a job wrote. Raises InfrastructureError when it is something else."""
    try:
        return [
            RowTokens(
                case.name,
                case.asked,
                tuple(Token(int(i), str(text), bool(loss)) for i, text, loss in row["tokens"]),
                None if row["chat"] is None else tuple(map(int, row["chat"])),
                tuple(map(int, row["raw"])),
            )
            for case, row in zip(cases, read_untrusted_json(file), strict=True)
        ]
    except (OSError, ValueError, LookupError, TypeError) as e:
        raise InfrastructureError(f"{file} is broken: {e!r}"[:300]) from e
