"""A sensible first config for decisions, model, device and data: a table of rules, each with its reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tuneloop.tools.config.catalog import Catalog
from tuneloop.tools.config.decisions import check_decisions, complete_decisions, decision_lines

TINY, SMALL, MEDIUM, LARGE = 20_000_000, 1_000_000_000, 2_000_000_000, 4_000_000_000


@dataclass(frozen=True)
class SuggestionFacts:
    """What the suggestion starts from; `longest` and `typical` are tokens of a record, `batch` rows of one step."""

    decisions: Mapping[str, str] = field(default_factory=dict)
    parameters: int = 7_000_000_000
    device: str = "cuda"
    max_positions: int | None = None
    template: str | None = None
    chat_template: bool = True
    longest: int = 2048
    typical: int = 512
    steps: int | None = None
    batch: int = 16
    rank: int = 32

    @property
    def tiny(self) -> bool:
        """So small that memory is no question."""
        return self.parameters < TINY

    @property
    def made(self) -> dict[str, str]:
        """The decisions, aliases read. Raises ToolError for unknown ones."""
        return check_decisions(self.decisions)

    @property
    def method(self) -> str:
        """The decided method; a tiny model is trained whole."""
        return self.made.get("method") or ("full" if self.tiny else complete_decisions({})["method"])

    @property
    def adapts(self) -> bool:
        """Whether adapters are trained."""
        return self.method in ("lora", "oft")

    @property
    def rows(self) -> int:
        """Rows on one device at once: all of the batch where the model is small, fewer where memory is short."""
        if self.tiny:
            return self.batch
        most = 8 if self.parameters < SMALL else 4 if self.parameters < LARGE else 2
        return most if self.device != "cpu" and self.typical < 2000 else max(1, most // 4)

    @property
    def cutoff(self) -> int:
        """The next multiple of 64 above the longest record, within what the model can read."""
        return min(max(128, -(-self.longest // 64) * 64), self.max_positions or 4096)

    @property
    def bare(self) -> bool:
        """Neither a template of the release nor one of the tokenizer's own, or the evaluation does not ask in one."""
        return self.template is None and not self.chat_template


@dataclass(frozen=True)
class SuggestionRule:
    """`value` of a key, and why; left out where it gives None or the release has no such key."""

    key: str
    value: Callable[[SuggestionFacts], Any]
    why: str


def _rate(f: SuggestionFacts) -> float:
    if f.adapts and f.tiny:
        return 3e-3
    if f.adapts:
        return 2e-4 if f.parameters < MEDIUM else 1e-4
    return 1e-3 if f.tiny else 1e-5


RULES: tuple[SuggestionRule, ...] = (
    SuggestionRule("stage", lambda f: f.made.get("stage", "sft"), "what is learned"),
    SuggestionRule("finetuning_type", lambda f: f.method, "a tiny model is trained whole, a larger one by adapters"),
    SuggestionRule("learning_rate", _rate, "adapters bear a higher rate than all weights of a real model"),
    SuggestionRule("lora_rank", lambda f: f.rank if f.method == "lora" else None, "usual 8 to 64"),
    SuggestionRule("lora_alpha", lambda f: 2 * f.rank if f.method == "lora" else None, "twice the rank"),
    SuggestionRule("lora_target", lambda f: "all" if f.method == "lora" else None, "every linear layer"),
    SuggestionRule("cutoff_len", lambda f: f.cutoff, "the longest record, within the model's positions"),
    SuggestionRule("per_device_train_batch_size", lambda f: f.rows, "what memory bears"),
    SuggestionRule("gradient_accumulation_steps", lambda f: max(1, f.batch // f.rows), "the rest of the batch"),
    SuggestionRule("lr_scheduler_type", lambda _: "cosine", "falls slowly, ends low"),
    SuggestionRule("warmup_steps", lambda f: max(1, round(0.06 * f.steps)) if f.steps else None, "6 % of the steps"),
    SuggestionRule("warmup_ratio", lambda f: None if f.steps else 0.06, "6 % of the steps"),
    SuggestionRule(
        "logging_steps", lambda f: max(1, round(0.02 * f.steps)) if f.steps else 10, "some 50 points of the loss"
    ),
    SuggestionRule("max_steps", lambda f: f.steps, "as many steps as asked for"),
    SuggestionRule("num_train_epochs", lambda f: None if f.steps else 3.0, "usual 1 to 3"),
    SuggestionRule("save_strategy", lambda _: "no", "the end is what counts; write steps to keep checkpoints"),
    SuggestionRule(
        "bf16", lambda f: f.device == "cuda" and _precision(f) == "bf16", "bfloat16 where the accelerator has it"
    ),
    SuggestionRule("fp16", lambda f: True if _precision(f) == "fp16" and f.device != "cpu" else None, "as decided"),
    SuggestionRule(
        "pure_bf16", lambda f: True if _precision(f) == "pure_bf16" and f.device != "cpu" else None, "as decided"
    ),
    SuggestionRule("overwrite_cache", lambda _: True, "data that changed is tokenized again"),
    SuggestionRule("disable_gradient_checkpointing", lambda f: f.tiny, "a tiny model needs no saving of memory"),
    SuggestionRule("dataloader_pin_memory", lambda f: f.device != "cpu", "pinned memory is for accelerators"),
    SuggestionRule("template", lambda f: "empty" if f.bare else f.template, "as the evaluation asks"),
)


def _precision(f: SuggestionFacts) -> str:
    return complete_decisions(f.decisions)["precision"]


# What decisions write and rules weigh with the device and the model.
OF_RULES = frozenset(("stage", "finetuning_type", "bf16", "fp16", "pure_bf16"))


@dataclass(frozen=True)
class Suggestion:
    """Values of train.yaml in order, and the reason of each."""

    values: Mapping[str, Any]
    why: Mapping[str, str]


def suggest_config(catalog: Catalog, facts: SuggestionFacts) -> Suggestion:
    """A first config; keys that the release does not have are left out. Raises ToolError for unknown decisions."""
    decided = {key: value for key, value in decision_lines(facts.decisions).items() if key not in OF_RULES}
    found = {rule.key: (rule.value(facts), rule.why) for rule in RULES}
    found |= {key: (value, "as decided") for key, value in decided.items()}
    kept = {key: pair for key, pair in found.items() if pair[0] is not None and key in catalog.parameters}
    return Suggestion({key: value for key, (value, _) in kept.items()}, {key: why for key, (_, why) in kept.items()})
