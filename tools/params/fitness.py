"""Whether a config fits the model, its tokenizer, the device and the packages that the engine has."""

from __future__ import annotations

from collections.abc import Iterator

from tuneloop.tools.params.finding import Level
from tuneloop.tools.params.situation import Situation

Complaint = tuple[Level, str, str]

PRECISION = ("bf16", "fp16", "fp8", "tf32", "pure_bf16", "bf16_full_eval", "fp16_full_eval", "quantization_bit")
PACKAGES = {
    "quantization_bit": "bitsandbytes",
    "use_unsloth": "unsloth",
    "enable_liger_kernel": "liger_kernel",
    "use_liger_kernel": "liger_kernel",
    "use_galore": "galore_torch",
    "use_apollo": "apollo_torch",
    "use_badam": "badam",
    "use_adam_mini": "adam_mini",
    "mixture_of_depths": "MoD",
    "use_kt": "kt_kernel",
}
OPTIMIZER_PACKAGES = (
    ("adamw_torch_4bit", "torchao"),
    ("adamw_torch_8bit", "torchao"),
    ("adamw_torch_npu", "torch_npu"),
    ("adamw_torch_xla", "torch_xla"),
    ("adamw_apex", "apex"),
    ("adamw_anyprecision", "torchdistx"),
    ("galore", "galore_torch"),
    ("apollo", "apollo_torch"),
    ("grokadamw", "grokadamw"),
    ("schedule_free", "schedulefree"),
    ("stable_adamw", "optimi"),
    ("lomo", "lomo_optim"),
    ("adalomo", "lomo_optim"),
    *((name, "bitsandbytes") for name in ("adamw_bnb", "adamw_8bit", "ademamix", "lion", "paged", "rmsprop_bnb")),
)


def misfits(situation: Situation) -> Iterator[Complaint]:
    """Everything that does not fit, as level, key and text."""
    yield from _device(situation)
    yield from _lengths(situation)
    yield from _template(situation)
    yield from _targets(situation)
    yield from _packages(situation)


def _device(situation: Situation) -> Iterator[Complaint]:
    for key in situation.set(*PRECISION) if situation.device == "cpu" else ():
        yield "error", key, "does not work on the CPU, which trains in float32; leave it out"
    if situation.device != "cpu" and situation.set("use_cpu"):
        yield "error", "use_cpu", f"leaves the {situation.device} device idle; leave it out"


def _lengths(situation: Situation) -> Iterator[Complaint]:
    longest, cutoff = situation.model.max_positions, situation.get("cutoff_len")
    if longest and cutoff > longest and not situation.set("rope_scaling"):
        told = "" if "cutoff_len" in situation.config.values else " (the default)"
        yield "error", "cutoff_len", f"{cutoff}{told} is above the model's {longest} positions; write {longest} or less"


def _template(situation: Situation) -> Iterator[Complaint]:
    name, own = situation.get("template"), situation.model.template
    if name is None:
        if situation.model.chat_template is None:
            yield "error", "template", "is missing and the tokenizer has no chat template; write one, e.g. default"
        return
    template = situation.catalog.templates.get(name)
    if template is None:
        return
    for token in template.needs if situation.model.tokens and not situation.set("resize_vocab") else ():
        if token not in situation.model.tokens and token in template.frame:
            yield "error", "template", f"{name} needs the token {token}, which the tokenizer lacks; {_own(own)}"
            return
    if name != own and situation.model.chat_template is not None and (own is not None or template.default_system):
        yield (
            "warning",
            "template",
            f"{name} is not how the tokenizer renders a chat, as the evaluation does; {_own(own)}",
        )


def _own(template: str | None) -> str:
    return f"write {template}" if template else "leave it out to take the tokenizer's own"


def _targets(situation: Situation) -> Iterator[Complaint]:
    target = situation.get("lora_target")
    if situation.method != "lora" or not isinstance(target, str) or target == "all" or not situation.model.shape.linears:
        return
    names = [name.strip() for name in target.split(",")]
    wrong = [name for name in names if name.split(".")[-1] not in situation.model.shape.linears]
    if wrong:
        have = ", ".join(sorted(situation.model.shape.linears))
        yield "error", "lora_target", f'"{wrong[0]}" is no module of the model; right is all or some of {have}'


def _packages(situation: Situation) -> Iterator[Complaint]:
    needed = {key: PACKAGES[key] for key in situation.set(*PACKAGES)}
    optim = str(situation.get("optim"))
    package_of_optim = next((package for start, package in OPTIMIZER_PACKAGES if optim.startswith(start)), None)
    if package_of_optim:
        needed["optim"] = package_of_optim
    for key, package in needed.items():
        if not situation.catalog.has_package(package):
            yield "error", key, f"needs the package {package}, which the engine does not have; leave it out"
