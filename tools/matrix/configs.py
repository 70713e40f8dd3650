"""`sft.yaml`, `grpo.yaml` and `eval.yaml`: read, checked key by key, explained where they are wrong."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import read_text
from tuneloop.tools.config.config_text import ConfigError, parse_config
from tuneloop.tools.config.grpo_config import OF_GRPO, GrpoConfig
from tuneloop.tools.evaluation.standalone.measure import Decoding
from tuneloop.tools.registry import did_you_mean

SHIPPED = Path(__file__).parent / "configs"
SFT, GRPO, EVAL = FILES = ("sft.yaml", "grpo.yaml", "eval.yaml")
# What the experiments differ in, which a config would make the same for all.
DECIDED = ("template", "train_on_prompt", "mask_history", "enable_thinking", "default_system", "seed", "data_seed")


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
