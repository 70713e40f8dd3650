"""`sft.yaml`, `grpo.yaml` and `eval.yaml`: read, checked key by key, explained where they are wrong."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import read_text
from tuneloop.tools.config.config_text import ConfigError, parse_config
from tuneloop.tools.evaluation.standalone.measure import Decoding
from tuneloop.tools.registry import did_you_mean

SHIPPED = Path(__file__).parent / "configs"
SFT, GRPO, EVAL = FILES = ("sft.yaml", "grpo.yaml", "eval.yaml")
# What the experiments differ in, which a config would make the same for all.
DECIDED = ("template", "train_on_prompt", "mask_history", "enable_thinking", "default_system", "seed", "data_seed")


class GrpoConfig(BaseModel):
    """`grpo.yaml`: names and meaning of TRL's GRPOConfig, and how the matrix begins. Lengths in tokens."""

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

    def few(self, steps: int, groups: int) -> GrpoConfig:
        """The same for `steps` steps of at most `groups` groups of replies."""
        some = min(self.replies, groups * self.num_generations)
        small = {"per_device_train_batch_size": some, "gradient_accumulation_steps": 1, "steps_per_generation": None}
        return self.model_copy(
            update={"max_steps": steps, "num_iterations": 1, **(small if some < self.replies else {})}
        )

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


class EvalConfig(BaseModel):
    """`eval.yaml`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    max_tokens: int | None = Field(None, ge=1, le=65536)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    sample_limit: int | None = Field(None, ge=1)
    batch_size: int | None = Field(None, ge=1)

    @property
    def decoding(self) -> Decoding:
        """As evaluations take it."""
        return Decoding(self.max_tokens, self.temperature, self.top_p, batch_size=self.batch_size)


@dataclass(frozen=True)
class MatrixConfig:
    """All files; `texts` as they were read, by name."""

    sft: dict[str, Any]
    grpo: GrpoConfig
    evaluation: EvalConfig
    texts: dict[str, str]


def read_configs(folder: Path | None) -> MatrixConfig:
    """The configs in `folder`; a file that it lacks is the shipped one. Raises InvalidRequestError naming file and key.

    Keys of `sft.yaml` that LLaMA-Factory alone knows are checked with the model (`tools/matrix/training.py`).
    """
    if folder is not None and not any((folder / name).is_file() for name in FILES):
        raise InvalidRequestError(
            f"config {folder}: none of {', '.join(FILES)} is there; right is a folder with one of them"
        )
    places = {name: folder / name if folder and (folder / name).is_file() else SHIPPED / name for name in FILES}
    texts = {name: read_text(place) for name, place in places.items()}
    sft, grpo, evaluation = (read_values(places[name], texts[name]) for name in FILES)
    for key in sft:
        if why := foreign_to_sft(key):
            raise InvalidRequestError(f"{places[SFT]}: {key}: {why}")
    for key in grpo:
        if key in DECIDED:
            raise InvalidRequestError(f"{places[GRPO]}: {key}: is what the experiments decide; leave it out")
    return MatrixConfig(
        sft, check_values(GrpoConfig, places[GRPO], grpo), check_values(EvalConfig, places[EVAL], evaluation), texts
    )


def read_values(path: Path, text: str) -> dict[str, Any]:
    """Keys and values. Raises InvalidRequestError naming the line."""
    if not any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines()):
        return {}
    try:
        return dict(parse_config(text).values)
    except ConfigError as e:
        raise InvalidRequestError(f"{path}:{e.line}: {e.key}{': ' if e.key else ''}{e.text}") from e


def foreign_to_sft(key: str) -> str:
    """Why a key does not belong into `sft.yaml`, "" where it may."""
    if key in OF_GRPO:
        return "is a parameter of GRPO; it belongs into grpo.yaml, and LLaMA-Factory's SFT does not know it"
    if key in DECIDED:
        return "is what the experiments decide; leave it out"
    if key in EvalConfig.model_fields and key not in ("temperature", "top_p"):
        return f"is a key of {EVAL}"
    return ""


Model = TypeVar("Model", bound=BaseModel)


def check_values(model: type[Model], path: Path, values: dict[str, Any]) -> Model:
    """The values of a file as its model has them. Raises InvalidRequestError naming file and key."""
    known = list(model.model_fields)
    for key in values:
        if key not in known and key in OF_GRPO:
            raise InvalidRequestError(f"{path}: {key}: is a parameter of GRPO; it belongs into {GRPO}")
        if key not in known:
            raise InvalidRequestError(f"{path}: {key}: is unknown: {did_you_mean(key, known)}")
    try:
        return model.model_validate(values)
    except ValidationError as e:
        first = e.errors()[0]
        at = f"{first['loc'][0]}: " if first["loc"] else ""
        given = f" (given: {first['input']!r})" if first["loc"] else ""
        raise InvalidRequestError(f"{path}: {at}{first['msg'].removeprefix('Value error, ')}{given}") from e
