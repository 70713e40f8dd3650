"""Whether a config fits the model, its tokenizer, the device and the packages that the engine has."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator
from functools import lru_cache

from tuneloop.tools.config.context import BF16, FP8, TF32, ConfigContext
from tuneloop.tools.config.finding import KeyProblem
from tuneloop.tools.config.model_card import ModelCard
from tuneloop.tools.config.packages import missing_packages
from tuneloop.tools.config.templates import Template

# Names of the model's modules that a config trains, against the headers of its weights.

ALL = "all"
ALL_BY_OTHERS = ("all-linear", "all_linear", "*", "linear", "everything")
SERVED, USUALLY = 512, 64  # ranks that vLLM can serve, and serves without being told


def check_target_modules(s: ConfigContext) -> Iterator[KeyProblem]:
    """Modules that the model does not have."""
    if not s.model.shape.linears:
        return
    if s.method in ("lora", "oft"):
        yield from _adapted(s, "lora_target")
        if s.method == "oft":
            yield from _adapted(s, "oft_target")
        yield from _saved_too(s)
    if s.method == "freeze":
        yield from _unfrozen(s)
    for name in ("galore", "apollo"):
        if s.set(f"use_{name}"):
            yield from _projected(s, f"{name}_target")
    yield from _rank(s)


def _adapted(s: ConfigContext, key: str) -> Iterator[KeyProblem]:
    names = s.names(key) if s.on(key) or key == "lora_target" else []
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
        yield "error", key, f'"{name}" is no module of the model; {hint}right is all or some of {have}'
        return


def _saved_too(s: ConfigContext) -> Iterator[KeyProblem]:
    for name in s.names("additional_target"):
        if not name or not _ends(name, s.model):
            yield "error", "additional_target", f'"{name}" is no module of the model; usual embed_tokens,lm_head'
            return


def _ends(name: str, model: ModelCard) -> bool:
    """Whether a module's full name is or ends with this name."""
    if name.rsplit(".", 1)[-1] == "lm_head" and model.tied:
        return True
    return any(f".{module}".endswith(f".{name}") for module in module_names(frozenset(model.tensors)))


@lru_cache(maxsize=8)
def module_names(tensors: frozenset[str]) -> frozenset[str]:
    """Full names of modules that have weights, and of what they are inside."""
    found: set[str] = set()
    for tensor in tensors:
        parts = tensor.split(".")[:-1]
        found |= {".".join(parts[:n]) for n in range(1, len(parts) + 1)}
    return frozenset(found)


def _unfrozen(s: ConfigContext) -> Iterator[KeyProblem]:
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


def _projected(s: ConfigContext, key: str) -> Iterator[KeyProblem]:
    names = s.names(key)
    known: Collection[str] = module_names(frozenset(s.model.tensors))
    if names != [ALL] and not any(name in module for name in names for module in known):
        yield "error", key, f'"{names[0]}" is no module of the model; write all'


def _rank(s: ConfigContext) -> Iterator[KeyProblem]:
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


PRECISION = ("bf16", "fp16", "fp8", "tf32", "pure_bf16", "bf16_full_eval", "fp16_full_eval", "quantization_bit")
STRICT = (5,)  # from here on a model's config checks its types, and the engine stretches positions to a fraction
HALF = ("bf16", "bf16_full_eval")
LEAST = {"bf16": BF16, "pure_bf16": BF16, "bf16_full_eval": BF16, "tf32": TF32, "fp8": FP8}


def check_fit(context: ConfigContext) -> Iterator[KeyProblem]:
    """Everything that does not fit, as level, key and text."""
    yield from _device(context)
    yield from _lengths(context)
    yield from _template(context)
    yield from check_target_modules(context)
    yield from missing_packages(context)


def _device(s: ConfigContext) -> Iterator[KeyProblem]:
    on_cpu = s.device == "cpu" or (s.on("use_cpu") and not s.in_run)
    for key in s.set(*PRECISION) if on_cpu else ():
        if key not in HALF or not s.on("use_cpu") or s.in_run:
            also = " (or add use_cpu: true)" if key in HALF and not s.in_run else ""
            yield "error", key, f"does not work on the CPU, which trains in float32; leave it out{also}"
    for key in () if on_cpu else s.set(*LEAST):
        if s.accelerator.lacks(LEAST[key]):
            has = f"{s.accelerator.name} has compute capability {s.accelerator.capability:g}, and this needs {LEAST[key]:g}"
            yield "error", key, f"{has}; {'write fp16: true' if 'bf16' in key else 'leave it out'}"
    if s.device != "cpu" and s.set("use_cpu"):
        level = "error" if s.in_run else "warning"
        yield level, "use_cpu", f"leaves the {s.device} device idle; leave it out"  # type: ignore[misc]


def _lengths(s: ConfigContext) -> Iterator[KeyProblem]:
    longest, cutoff = s.model.max_positions, s.get("cutoff_len")
    if longest and cutoff > longest and not s.set("rope_scaling"):
        told = "" if "cutoff_len" in s.config.values else " (the default)"
        yield "error", "cutoff_len", f"{cutoff}{told} is above the model's {longest} positions; write {longest} or less"
    if longest and cutoff > longest and s.set("rope_scaling") and s.version("transformers") >= STRICT:
        why = "fails with the engine's transformers, which wants a whole number of positions"
        yield "error", "rope_scaling", f"{why}; leave it out and write cutoff_len: {longest} or less"
    if longest and cutoff <= longest and s.set("rope_scaling"):
        yield "warning", "rope_scaling", f"has no effect: cutoff_len {cutoff} is within the model's {longest} positions"


def _template(s: ConfigContext) -> Iterator[KeyProblem]:
    name, own = s.get("template"), s.model.template
    if name is None:
        if s.model.chat_template is None and s.model.tokens and s.stage != "pt":
            yield "error", "template", "is missing and the tokenizer has no chat template; write one, e.g. default"
        return
    template = s.catalog.templates.get(name)
    if template is None or not s.model.tokens or s.stage == "pt":
        return
    if not s.set("resize_vocab") and (lacking := _missing_tokens(s, template)):
        room = s.model.vocab - s.model.token_count
        level = "error" if len([t for t in lacking if t in template.stops]) > room or s.in_run else "warning"
        yield level, "template", f"{name} needs the token {lacking[0]}, which the tokenizer lacks; {_own(own)}"  # type: ignore[misc]
        return
    if name != own and s.model.chat_template is not None and (own is not None or template.default_system):
        what = f"{name} is not how the tokenizer renders a chat, as the evaluation does"
        yield "warning", "template", f"{what}; {_own(own)}"


def _missing_tokens(s: ConfigContext, template: Template) -> list[str]:
    return [token for token in template.needs if token not in s.model.tokens and token in template.frame]


def _own(template: str | None) -> str:
    return f"write {template}" if template else "leave it out to take the tokenizer's own"
