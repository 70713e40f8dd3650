"""The experiments of the matrix, their cells, and where the result tree has what they leave."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from tuneloop.core.errors import InvalidRequestError
from tuneloop.tools.training.tokens import Format

FORMATS: tuple[Format, ...] = ("chat", "raw")


@dataclass(frozen=True)
class Experiment:
    """One way to train. `chat`: prompts stand in the model's chat template; `mask_question`: only answers carry loss."""

    name: str
    chat: bool
    mask_question: bool
    seed: int = 1
    method: Literal["sft", "grpo"] = "sft"

    @property
    def format(self) -> Format:
        """The evaluation format whose prompts are what it was trained on."""
        return "chat" if self.chat else "raw"

    @property
    def sft(self) -> Experiment:
        """The SFT of the same format and seed, with which a GRPO may begin."""
        return sft_experiment(chat=self.chat, mask_question=True, seed=self.seed)

    @property
    def model(self) -> str:
        """Name of its folder below `models/`."""
        return self.name if self.seed == 1 else f"{self.name}_seed{self.seed}"

    def cell(self, asked: Format) -> str:
        """Name of a cell's folder below `eval/`."""
        return f"{self.model}_eval_{asked}"


EXPERIMENTS = (
    Experiment("sft_chat_template", chat=True, mask_question=True),
    Experiment("grpo_chat_template", chat=True, mask_question=True, method="grpo"),
    Experiment("sft_no_chat_full_loss", chat=False, mask_question=False),
    Experiment("sft_no_chat_mask_q", chat=False, mask_question=True),
    Experiment("grpo_no_chat", chat=False, mask_question=True, method="grpo"),
)


def choose_experiments(names: Sequence[str], seeds: int = 1) -> list[Experiment]:
    """The named experiments, all where none is named, with each seed. Raises InvalidRequestError."""
    known = {one.name: one for one in EXPERIMENTS}
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"right is one of {', '.join(known)}"
            raise InvalidRequestError(f"experiment {name!r} is unknown: {hint}")
    chosen = [known[name] for name in dict.fromkeys(names or known)]
    return [replace(one, seed=seed) for one in chosen for seed in range(1, seeds + 1)]


def sft_experiment(*, chat: bool, mask_question: bool, seed: int) -> Experiment:
    """The SFT that trains in this way; in a chat template only answers carry loss."""
    asked = ("sft", chat, chat or mask_question)
    found = next(one for one in EXPERIMENTS if (one.method, one.chat, one.mask_question) == asked)
    return replace(found, seed=seed)


def grpo_experiment(*, chat: bool, seed: int) -> Experiment:
    """The GRPO whose prompts are asked in this way."""
    found = next(one for one in EXPERIMENTS if one.method == "grpo" and one.chat == chat)
    return replace(found, seed=seed)


@dataclass(frozen=True)
class ResultTree:
    """`results/<task>/`."""

    root: Path

    @property
    def report(self) -> Path:
        """Table, plots and page."""
        return self.root / "report"

    def model(self, experiment: Experiment) -> Path:
        """A trained model."""
        return self.root / "models" / experiment.model

    def cell(self, experiment: Experiment, asked: Format) -> Path:
        """`results.json` and `summary.json` of one cell."""
        return self.root / "eval" / experiment.cell(asked)
