"""Whether a config fits the model, its tokenizer, the device and the packages that the engine has."""

from __future__ import annotations

from collections.abc import Iterator

from tuneloop.tools.params.accelerators import BF16, FP8, TF32
from tuneloop.tools.params.finding import Complaint
from tuneloop.tools.params.packages import missing_packages
from tuneloop.tools.params.situation import Situation
from tuneloop.tools.params.targets import wrong_targets
from tuneloop.tools.params.templates import Template

PRECISION = ("bf16", "fp16", "fp8", "tf32", "pure_bf16", "bf16_full_eval", "fp16_full_eval", "quantization_bit")
STRICT = (5,)  # from here on a model's config checks its types, and the engine stretches positions to a fraction
HALF = ("bf16", "bf16_full_eval")
LEAST = {"bf16": BF16, "pure_bf16": BF16, "bf16_full_eval": BF16, "tf32": TF32, "fp8": FP8}


def misfits(situation: Situation) -> Iterator[Complaint]:
    """Everything that does not fit, as level, key and text."""
    yield from _device(situation)
    yield from _lengths(situation)
    yield from _template(situation)
    yield from wrong_targets(situation)
    yield from missing_packages(situation)


def _device(s: Situation) -> Iterator[Complaint]:
    on_cpu = s.device == "cpu" or (s.on("use_cpu") and not s.in_run)
    for key in s.set(*PRECISION) if on_cpu else ():
        if key not in HALF or not s.on("use_cpu") or s.in_run:
            also = " (or add use_cpu: true)" if key in HALF and not s.in_run else ""
            yield "error", key, f"does not work on the CPU, which trains in float32; leave it out{also}"
    for key in () if on_cpu else s.set(*LEAST):
        if s.place.lacks(LEAST[key]):
            has = f"{s.place.name} has compute capability {s.place.capability:g}, and this needs {LEAST[key]:g}"
            yield "error", key, f"{has}; {'write fp16: true' if 'bf16' in key else 'leave it out'}"
    if s.device != "cpu" and s.set("use_cpu"):
        level = "error" if s.in_run else "warning"
        yield level, "use_cpu", f"leaves the {s.device} device idle; leave it out"  # type: ignore[misc]


def _lengths(s: Situation) -> Iterator[Complaint]:
    longest, cutoff = s.model.max_positions, s.get("cutoff_len")
    if longest and cutoff > longest and not s.set("rope_scaling"):
        told = "" if "cutoff_len" in s.config.values else " (the default)"
        yield "error", "cutoff_len", f"{cutoff}{told} is above the model's {longest} positions; write {longest} or less"
    if longest and cutoff > longest and s.set("rope_scaling") and s.version("transformers") >= STRICT:
        why = "fails with the engine's transformers, which wants a whole number of positions"
        yield "error", "rope_scaling", f"{why}; leave it out and write cutoff_len: {longest} or less"
    if longest and cutoff <= longest and s.set("rope_scaling"):
        yield "warning", "rope_scaling", f"has no effect: cutoff_len {cutoff} is within the model's {longest} positions"


def _template(s: Situation) -> Iterator[Complaint]:
    name, own = s.get("template"), s.model.template
    if name is None:
        if s.model.chat_template is None and s.model.tokens and s.stage != "pt":
            yield "error", "template", "is missing and the tokenizer has no chat template; write one, e.g. default"
        return
    template = s.catalog.templates.get(name)
    if template is None or not s.model.tokens or s.stage == "pt":
        return
    if not s.set("resize_vocab") and (lacking := _lacking(s, template)):
        room = s.model.vocab - s.model.token_count
        level = "error" if len([t for t in lacking if t in template.stops]) > room or s.in_run else "warning"
        yield level, "template", f"{name} needs the token {lacking[0]}, which the tokenizer lacks; {_own(own)}"  # type: ignore[misc]
        return
    if name != own and s.model.chat_template is not None and (own is not None or template.default_system):
        what = f"{name} is not how the tokenizer renders a chat, as the evaluation does"
        yield "warning", "template", f"{what}; {_own(own)}"


def _lacking(s: Situation, template: Template) -> list[str]:
    return [token for token in template.needs if token not in s.model.tokens and token in template.frame]


def _own(template: str | None) -> str:
    return f"write {template}" if template else "leave it out to take the tokenizer's own"
