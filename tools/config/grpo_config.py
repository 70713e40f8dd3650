"""Parameters of a GRPO training: the matrix's `grpo.yaml`, and a recipe's `train.yaml` with `stage: grpo`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tuneloop.tools.registry import did_you_mean

SMOKE_STEPS = 3  # of a smoke run at least


class GrpoConfig(BaseModel):
    """Names and meaning of TRL's GRPOConfig, and what it begins with. Lengths in tokens."""

    model_config = ConfigDict(extra="forbid", strict=True)

    start_from: Literal["auto", "base", "sft"] = "auto"
    finetuning_type: Literal["lora", "full"] = "lora"
    lora_rank: int = Field(16, ge=1, le=1024)
    lora_alpha: int = Field(32, ge=1, le=4096)
    max_prompt_length: int = Field(1024, ge=1, le=1 << 20)
    learning_rate: float = Field(1e-6, gt=0, le=1)
    lr_scheduler_type: Literal["linear", "cosine", "constant", "constant_with_warmup", "polynomial"] = "linear"
    warmup_steps: int = Field(0, ge=0)
    weight_decay: float = Field(0.0, ge=0, le=1)
    max_grad_norm: float = Field(1.0, gt=0)
    max_steps: int = Field(100, ge=1)
    per_device_train_batch_size: int = Field(8, ge=1)
    gradient_accumulation_steps: int = Field(1, ge=1)
    gradient_checkpointing: bool = False
    num_generations: int = Field(8, ge=2)
    steps_per_generation: int | None = Field(None, ge=1)
    num_iterations: int = Field(1, ge=1)
    max_completion_length: int = Field(256, ge=1, le=1 << 20)
    temperature: float = Field(1.0, gt=0, le=2)
    top_p: float = Field(1.0, gt=0, le=1)
    top_k: int = Field(0, ge=0)
    repetition_penalty: float = Field(1.0, gt=0)
    beta: float = Field(0.0, ge=0)
    epsilon: float = Field(0.2, gt=0, lt=1)
    epsilon_high: float | None = Field(None, gt=0)
    loss_type: Literal["grpo", "dapo", "bnpo", "dr_grpo"] = "dapo"
    scale_rewards: Literal["group", "batch", "none"] = "group"
    mask_truncated_completions: bool = False
    use_vllm: bool = False
    vllm_gpu_memory_utilization: float = Field(0.3, gt=0, lt=1)
    save_steps: int | None = Field(None, ge=1)

    @property
    def period(self) -> int:
        """Optimizer steps between two where all replies are used up, which alone can be gone on from."""
        generation = self.steps_per_generation or self.gradient_accumulation_steps
        return max(1, generation * self.num_iterations // self.gradient_accumulation_steps)

    @property
    def checkpoint_steps(self) -> int:
        """Steps between checkpoints: a whole number of periods."""
        return self.period * max(1, round((self.save_steps or self.max_steps / 10) / self.period))

    @property
    def replies(self) -> int:
        """Replies of one optimizer step, on one device."""
        return self.per_device_train_batch_size * self.gradient_accumulation_steps

    @property
    def prompts(self) -> int:
        """Prompts whose replies are drawn at once, on one device."""
        steps = self.steps_per_generation or self.gradient_accumulation_steps
        return self.per_device_train_batch_size * steps // self.num_generations

    def few(self, groups: int | None = None) -> GrpoConfig:
        """The same for a few steps, of at most `groups` groups of replies.

        Those after the first last a period and so hold one generation: their mean is what a step takes. A training of one
        period draws no replies after its first step, and neither do these.
        """
        some = self.replies if groups is None else groups * self.num_generations
        small = {"per_device_train_batch_size": some, "gradient_accumulation_steps": 1, "steps_per_generation": None}
        short = self.model_copy(update=small if some < self.replies else {})
        period = short.period if self.max_steps > self.period else 0
        return short.model_copy(update={"max_steps": max(SMOKE_STEPS, period + 1)})

    @model_validator(mode="after")
    def batches_fit(self) -> GrpoConfig:
        """Each generation holds whole groups, and whole steps."""
        steps = self.steps_per_generation or self.gradient_accumulation_steps
        if self.per_device_train_batch_size * steps % self.num_generations:
            raise ValueError(
                f"num_generations: {self.num_generations} does not divide per_device_train_batch_size x "
                f"{steps} steps of a generation = {self.per_device_train_batch_size * steps}"
            )
        if steps * self.num_iterations % self.gradient_accumulation_steps:
            raise ValueError(
                f"steps_per_generation: {steps} x {self.num_iterations} iterations is no multiple of "
                f"gradient_accumulation_steps {self.gradient_accumulation_steps}"
            )
        return self

    def trl_values(self) -> dict[str, Any]:
        """What TRL's GRPOConfig is given."""
        ours = {"start_from", "finetuning_type", "lora_rank", "lora_alpha", "max_prompt_length", "save_steps"}
        return self.model_dump(exclude=ours, exclude_none=True)


OF_GRPO = frozenset(GrpoConfig.model_fields) - {
    "finetuning_type", "lora_rank", "lora_alpha", "learning_rate", "lr_scheduler_type", "warmup_steps", "weight_decay",
    "max_grad_norm", "max_steps", "per_device_train_batch_size", "gradient_accumulation_steps", "gradient_checkpointing",
    "save_steps", "temperature", "top_p", "top_k", "repetition_penalty",
}  # fmt: skip


# A recipe's `train.yaml` with `stage: grpo`: the same parameters, and what is said of a key that is none.

STAGE = "grpo"
INSTEAD = {
    "num_train_epochs": "GRPO counts steps; write max_steps for num_train_epochs",
    "cutoff_len": "GRPO cuts nothing; leave it out, max_prompt_length and max_completion_length limit a reply's two parts",
    "template": "GRPO asks in the form of the evaluation; leave it out",
    "lora_target": "GRPO adapts every linear layer; leave it out",
    "seed": "is set by the run; leave it out",
    **dict.fromkeys(
        ("train_on_prompt", "mask_history"), "GRPO learns from replies, prompts carry no loss; leave it out"
    ),
}


def is_grpo(values: Mapping[str, Any]) -> bool:
    """Whether a config's values are those of a GRPO training."""
    return values.get("stage") == STAGE


def grpo_values(values: Mapping[str, Any]) -> GrpoConfig:
    """The parameters of a config that was checked. Raises ValidationError."""
    return GrpoConfig.model_validate({key: value for key, value in values.items() if key != "stage"})


def key_problem(key: str) -> str:
    """Why a key does not belong into a GRPO recipe, "" where it does."""
    known = list(GrpoConfig.model_fields)
    return "" if key in known else INSTEAD.get(key) or f"is no parameter of GRPO: {did_you_mean(key, known)}"


def value_problems(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Key and text of each value that GRPO does not take."""
    try:
        GrpoConfig.model_validate(dict(values))
    except ValidationError as e:
        return [_problem(one["loc"], one["msg"], one["input"]) for one in e.errors()]
    return []


def _problem(place: tuple[int | str, ...], said: str, given: Any) -> tuple[str, str]:
    if place:
        return str(place[0]), f"{said} (given: {given!r})"
    key, _, text = said.removeprefix("Value error, ").partition(": ")
    return key, text


def reply_problem(values: GrpoConfig, positions: int | None) -> str:
    """Why a reply of `max_completion_length` does not fit a model of so many positions, "" where it does."""
    full = positions is not None and values.max_completion_length >= positions
    return f"leaves no room for a prompt; must be below {positions}" if full else ""


def fit_prompts(values: GrpoConfig, positions: int | None) -> GrpoConfig:
    """The same with prompts that leave the model room for a whole reply; the engine leaves out longer ones."""
    room = positions - values.max_completion_length if positions else values.max_prompt_length
    return values.model_copy(update={"max_prompt_length": min(values.max_prompt_length, room)})


def as_sft(values: Mapping[str, Any]) -> dict[str, Any]:
    """What an SFT that takes as much memory for the model would be given: estimates know those."""
    found = grpo_values(values)
    return {
        "stage": "sft",
        "finetuning_type": found.finetuning_type,
        "lora_rank": found.lora_rank,
        "per_device_train_batch_size": found.per_device_train_batch_size,
        "gradient_accumulation_steps": found.gradient_accumulation_steps,
        "disable_gradient_checkpointing": not found.gradient_checkpointing,
        "cutoff_len": found.max_prompt_length + found.max_completion_length,
        "max_steps": found.max_steps,
    }


def suggest_grpo(*, tiny: bool, steps: int | None, longest_reply: int) -> dict[str, Any]:
    """A first GRPO recipe for a model that an SFT has trained; LoRA's own values count from the base model alone."""
    return {
        "stage": STAGE,
        "learning_rate": 2e-4 if tiny else 5e-5,
        "warmup_steps": 5,
        "max_steps": steps or 100,
        "per_device_train_batch_size": 64,
        "num_generations": 8,
        "max_completion_length": longest_reply,
        "beta": 0.01,
        "num_iterations": 2,
    }
