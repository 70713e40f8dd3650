"""Base models that a run may choose from when none is named: what each needs, and which of them fit this machine and task."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field

from tuneloop.core.catalog import Benchmark
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.formatting import format_duration, format_size
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.sandboxes.local import gpu_memory
from tuneloop.tools.config.memory_estimate import Hardware, Recipe, estimate_memory
from tuneloop.tools.config.model_card import read_model_card
from tuneloop.tools.config.model_shape import LinearGroup, ModelShape, sizes_of_config
from tuneloop.tools.hub.store import MANIFEST
from tuneloop.tools.jobs.machine import find_device, memory_limit, physical_cores

LIST = Path(__file__).with_name("base_models.yaml")
LICENCE = re.compile(r"^license:\s*['\"]?([\w.-]+)", re.MULTILINE)
FRONT_MATTER = 4096  # characters of a README in which a hub's licence stands
# The least training that teaches a format: rows, and tokens of each.
ROWS, TOKENS, LONGEST_ROW = 100, 256, 2048
CORE = 4e10  # float32 operations a second of one core that multiplies matrices, measured with SmolLM2-135M
OPERATIONS = (
    4  # for each parameter and token, when adapters are trained: forward, and backward without weights' gradients
)
LONGEST = 4 * 3600.0  # seconds of that training where the run has no time limit
SHARE = 3  # of a run's time: baseline, training, evaluation
TOLD = 2  # candidates that are named where none can be taken
DOMAIN = 2.0  # a model of the benchmark's own domain counts as one of so many times its parameters


class Candidate(BaseModel):
    """A base model before it is fetched. `sizes`: layers, hidden, inner width, heads, key heads, vocabulary."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    licence: str
    sizes: tuple[int, int, int, int, int, int] | None = None
    tied: bool = True
    context: int | None
    domains: tuple[str, ...] = ()
    template: bool = True
    why: str = ""
    here: bool = False

    def shape(self, home: Path) -> ModelShape:
        """From the files where they are here, else from the list. Raises InvalidRequestError for files that say nothing."""
        if self.sizes is None:
            return read_model_card(home / self.name).shape
        layers, hidden, wide, heads, keys, vocab = self.sizes
        key = hidden // heads * keys
        widths = {
            "q_proj": (hidden, hidden), "k_proj": (key, hidden), "v_proj": (key, hidden), "o_proj": (hidden, hidden),
            "gate_proj": (wide, hidden), "up_proj": (wide, hidden), "down_proj": (hidden, wide),
        }  # fmt: skip
        config = {
            "num_hidden_layers": layers, "hidden_size": hidden, "intermediate_size": wide, "vocab_size": vocab,
            "num_attention_heads": heads, "num_key_value_heads": keys,
        }  # fmt: skip
        table = vocab * hidden
        return ModelShape(
            **sizes_of_config(config),
            embedding=table,
            head=0 if self.tied else table,
            rest=(2 * layers + 1) * hidden,
            linears={name: LinearGroup(*sides, layers) for name, sides in widths.items()},
        )


class JudgedModel(BaseModel):
    """A candidate against this machine and benchmark; `refused`: why it cannot be taken, "" where it can.

    `memory`: bytes that its smallest training needs; `seconds`: about what that training takes, None on a GPU. `value`: its
    score on `items` validation items in the benchmark's own metric, None where it was not measured: `note` says why.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    licence: str
    why: str
    here: bool
    parameters: int = Field(ge=0)
    memory: int = Field(ge=0)
    seconds: float | None = None
    rank: float = 0.0
    refused: str = ""
    value: float | None = None
    items: int = 0
    probe_seconds: float = 0.0
    note: str = ""

    @property
    def line(self) -> str:
        """For people and agents."""
        known = f"{self.name}: {self.parameters / 1e6:,.1f} M parameters, {self.licence}, {format_size(self.memory)} to train"
        took = "" if self.seconds is None else f", about {format_duration(self.seconds)} for {ROWS} rows"
        if self.refused:
            return f"{known}{took}; not possible: {self.refused}"
        if self.value is None:
            return f"{known}{took}; not measured{': ' * bool(self.note)}{self.note}"
        return (
            f"{known}{took}; {self.value:.1f} on {self.items} validation items in {format_duration(self.probe_seconds)}"
        )


class ModelChoice(BaseModel):
    """`model_choice.json`: the base model of a run that named none, who chose it and why, and what else there was."""

    model_config = ConfigDict(frozen=True)

    base_model: str
    reason: str
    chosen_by: str
    judged: tuple[JudgedModel, ...] = ()


@cache
def listed_models() -> tuple[Candidate, ...]:
    """The list that tuneloop brings."""
    return tuple(Candidate.model_validate(row) for row in yaml.safe_load(LIST.read_text(encoding="utf-8")))


def find_candidates(settings: Settings) -> list[Candidate]:
    """The list, and every other whole model in the home."""
    home = settings.home.models
    listed = [one.model_copy(update={"here": _is_here(home / one.name)}) for one in listed_models()]
    known = {one.name for one in listed}
    found = sorted({place.parent for depth in ("*", "*/*") for place in home.glob(f"{depth}/{MANIFEST}")})
    names = [folder.relative_to(home).as_posix() for folder in found]
    others = [name for name in names if name not in known and not name.startswith((".", "converted/"))]
    return [*listed, *(one for name in others if (one := _card_of(home, name)))]


def _is_here(folder: Path) -> bool:
    return (folder / MANIFEST).is_file()


def _card_of(home: Path, name: str) -> Candidate | None:
    """A model that somebody fetched earlier; None where its files describe no model that can be chatted with."""
    try:
        card = read_model_card(home / name)
    except InvalidRequestError:
        return None
    readme = home / name / "README.md"
    text = readme.read_text(encoding="utf-8", errors="replace")[:FRONT_MATTER] if readme.is_file() else ""
    licence = match[1] if (match := LICENCE.search(text)) else "unknown"
    return Candidate(
        name=name,
        licence=licence,
        context=card.max_positions,
        template=card.chat_template is not None,
        why="fetched earlier",
        here=True,
    )


def judge_candidates(
    candidates: Iterable[Candidate], benchmark: Benchmark, settings: Settings, spec: RunSpec
) -> list[JudgedModel]:
    """Each against memory, time, template and context; those that can be taken first, the most promising first.

    Raises InvalidRequestError where nobody says what memory the GPUs have.
    """
    device = find_device()
    memory = training_memory(settings, spec) if device == "cuda" else memory_limit(settings)
    allowed = LONGEST if spec.timeout is None else spec.timeout / SHARE
    judged = [_judge(one, benchmark, settings, device, memory, allowed) for one in candidates]
    return sorted(judged, key=lambda one: (bool(one.refused), -one.rank, not one.here, one.name))


def training_memory(settings: Settings, spec: RunSpec) -> int:
    """Bytes of a GPU where jobs run. Raises InvalidRequestError where nobody says how many."""
    here = max(gpu_memory().values(), default=0)
    found = (here or settings.gpu_memory) if spec.executor == "local" else (settings.gpu_memory or here)
    if not found:
        raise InvalidRequestError(
            "no base model is named, and this machine sees no GPU by whose memory one could be chosen: right is --base-model "
            "FOLDER|ID, FT_BASE_MODEL, or TUNELOOP_GPU_MEMORY=BYTES of a GPU where jobs run"
        )
    return found


def _judge(
    one: Candidate, benchmark: Benchmark, settings: Settings, device: str, memory: int, allowed: float
) -> JudgedModel:
    shape = one.shape(settings.home.models)
    cpu = device == "cpu"
    tokens = min(LONGEST_ROW, TOKENS + benchmark.max_new_tokens, one.context or LONGEST_ROW)
    recipe = Recipe(precision="fp32" if cpu else "bf16", tokens=tokens)
    need = estimate_memory(shape, recipe, Hardware(device="cpu" if cpu else "cuda")).total
    seconds = OPERATIONS * shape.parameters * ROWS * TOKENS / (CORE * physical_cores()) if cpu else None
    refused = ""
    if not one.template:
        refused = "it has no chat template"
    elif one.context is not None and one.context <= benchmark.max_new_tokens:
        refused = f"its {one.context} positions hold no answer of {benchmark.max_new_tokens} tokens"
    elif need > memory:
        refused = f"there are {format_size(memory)}"
    elif seconds is not None and seconds > allowed:
        refused = f"an experiment may take {format_duration(allowed)}"
    return JudgedModel(
        name=one.name,
        licence=one.licence,
        why=one.why,
        here=one.here,
        parameters=shape.parameters,
        memory=need,
        seconds=seconds,
        rank=shape.parameters * (DOMAIN if benchmark.domain in one.domains else 1.0),
        refused=refused,
    )


def possible_models(judged: Sequence[JudgedModel]) -> list[JudgedModel]:
    """Those that can be taken. Raises InvalidRequestError where none can, with what keeps the smallest from it."""
    possible = [one for one in judged if not one.refused]
    if not possible:
        smallest = sorted(judged, key=lambda one: one.parameters)[:TOLD]
        why = "; ".join(f"{one.name}: {one.refused}" for one in smallest)
        raise InvalidRequestError(
            f"no base model is named and none of the list fits ({why}): right is --base-model FOLDER|ID, FT_BASE_MODEL, or a "
            "longer --timeout where time is short"
        )
    return possible


def best_of(judged: Sequence[JudgedModel], benchmark: Benchmark) -> tuple[JudgedModel, str]:
    """The one to take, and why: of those whose score is within a standard error of the best, the most promising.

    Args:
        judged: at least one that is not refused.
        benchmark: says whether more is better.

    Raises:
        InvalidRequestError: none can be taken.
    """
    possible = possible_models(judged)
    measured = [one for one in possible if one.value is not None]
    if not measured:
        why = "the only one that can be taken" if len(possible) == 1 else "the most promising; none was measured"
        return possible[0], f"{why}; {known_of(possible[0])}{refusals(judged)}"
    sign = 1 if benchmark.direction == "max" else -1
    top = max(measured, key=lambda one: (sign * (one.value or 0.0), one.rank))
    near = [one for one in measured if sign * ((top.value or 0.0) - (one.value or 0.0)) <= standard_error(top)]
    chosen = max(near, key=lambda one: one.rank)
    why = (
        "it scores best"
        if len(near) == 1
        else "within a standard error of the best score, and the most promising of those"
    )
    told = ", ".join(f"{one.name} {one.value:.1f}" for one in measured)
    return chosen, f"{why} ({told} on {chosen.items} validation items); {known_of(chosen)}{refusals(judged)}"


def known_of(one: JudgedModel) -> str:
    """Its licence, and what speaks for it."""
    return f"licence {one.licence}, {one.why}" if one.why else f"licence {one.licence}"


def refusals(judged: Sequence[JudgedModel]) -> str:
    """Why the others cannot be taken, each reason once with how many it is; "" where all can."""
    why = Counter(one.refused for one in judged if one.refused)
    told = ", ".join(f"{count}: {text}" for text, count in why.most_common())
    return f"; others cannot be taken ({told})" if told else ""


def standard_error(one: JudgedModel) -> float:
    """Of a share in percent on so few items; at its widest where all or none were right."""
    share = min(max((one.value or 0.0) / 100, 0.5 / max(1, one.items)), 1 - 0.5 / max(1, one.items))
    return float(100 * (share * (1 - share) / max(1, one.items)) ** 0.5)
