"""Names of the model's modules that a config trains, against the headers of its weights."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator
from functools import lru_cache

from tuneloop.tools.params.finding import Complaint
from tuneloop.tools.params.model_card import ModelCard
from tuneloop.tools.params.situation import Situation

ALL = "all"
ALL_BY_OTHERS = ("all-linear", "all_linear", "*", "linear", "everything")
SERVED, USUALLY = 512, 64  # ranks that vLLM can serve, and serves without being told


def wrong_targets(s: Situation) -> Iterator[Complaint]:
    """Modules that the model does not have."""
    if not s.model.shape.linears:
        return
    if s.method in ("lora", "oft"):
        yield from _adapted(s)
        yield from _saved_too(s)
    if s.method == "freeze":
        yield from _unfrozen(s)
    for name in ("galore", "apollo"):
        if s.set(f"use_{name}"):
            yield from _projected(s, f"{name}_target")
    yield from _rank(s)


def _adapted(s: Situation) -> Iterator[Complaint]:
    names = s.names("lora_target")
    if names == [ALL]:
        return
    linears = s.model.shape.linears
    for name in names:
        last = name.rsplit(".", 1)[-1]
        if name and (last in linears or last in ("lm_head", "embed_tokens")) and _ends(name, s.model):
            continue
        near = difflib.get_close_matches(name, linears, n=1)
        hint = f"did you mean {near[0]}? " if near and name not in ALL_BY_OTHERS else ""
        have = ", ".join(sorted(linears))
        yield "error", "lora_target", f'"{name}" is no module of the model; {hint}right is all or some of {have}'
        return


def _saved_too(s: Situation) -> Iterator[Complaint]:
    for name in s.names("additional_target"):
        if not name or not _ends(name, s.model):
            yield "error", "additional_target", f'"{name}" is no module of the model; usual embed_tokens,lm_head'
            return


def _ends(name: str, model: ModelCard) -> bool:
    """Whether a module's full name is or ends with this name."""
    if name.rsplit(".", 1)[-1] == "lm_head" and model.tied:
        return True
    return any(f".{module}".endswith(f".{name}") for module in modules(frozenset(model.tensors)))


@lru_cache(maxsize=8)
def modules(tensors: frozenset[str]) -> frozenset[str]:
    """Full names of modules that have weights, and of what they are inside."""
    found: set[str] = set()
    for tensor in tensors:
        parts = tensor.split(".")[:-1]
        found |= {".".join(parts[:n]) for n in range(1, len(parts) + 1)}
    return frozenset(found)


def _unfrozen(s: Situation) -> Iterator[Complaint]:
    inner, outer = layer_parts(frozenset(s.model.tensors))
    for key, known, also in (("freeze_trainable_modules", inner, (ALL,)), ("freeze_extra_modules", outer, ())):
        for name in s.names(key):
            if name not in known and name not in also:
                right = ", ".join(sorted(known))
                yield (
                    "error",
                    key,
                    f'"{name}" is no such part of the model; right is {"all or " * bool(also)}some of {right}',
                )
                break


@lru_cache(maxsize=8)
def layer_parts(tensors: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Parts of a layer, and modules outside the layers, as the engine finds them."""
    inner = {name.split(".0.")[-1].split(".")[0] for name in tensors if ".0." in name}
    inner |= {name.split(".1.")[-1].split(".")[0] for name in tensors if ".0." not in name and ".1." in name}
    outer = {name.split(".")[-2] for name in tensors if not re.search(r"\.\d+\.", name) and "." in name}
    return frozenset(inner), frozenset(outer)


def _projected(s: Situation, key: str) -> Iterator[Complaint]:
    names = s.names(key)
    known: Collection[str] = modules(frozenset(s.model.tensors))
    if names != [ALL] and not any(name in module for name in names for module in known):
        yield "error", key, f'"{names[0]}" is no module of the model; write all'


def _rank(s: Situation) -> Iterator[Complaint]:
    rank = s.get("lora_rank")
    if s.method != "lora" or not isinstance(rank, int):
        return
    sizes = [min(linear.outputs, linear.inputs) for linear in s.model.shape.linears.values()]
    if s.set("pissa_init") and s.get("pissa_iter") != -1 and rank > min(sizes):
        yield (
            "error",
            "lora_rank",
            f"{rank} is above {min(sizes)}, the least side of the model's matrices, and pissa_init needs less",
        )
    elif rank > s.model.hidden > 0 and s.set("lora_rank"):
        yield (
            "warning",
            "lora_rank",
            f"{rank} is above the model's width {s.model.hidden}: larger than what it adapts; usual 8–64",
        )
    if rank > SERVED:
        yield (
            "warning",
            "lora_rank",
            f"{rank} is above {SERVED}, the most that vLLM serves; the adapter must be merged first",
        )
    elif rank > USUALLY:
        yield "note", "lora_rank", f"{rank} is served by vLLM with max_lora_rank {rank} or more; {USUALLY} is usual"
