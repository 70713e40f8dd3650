"""Packages of the engine that some keys need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tuneloop.tools.config.context import ConfigContext
from tuneloop.tools.config.finding import KeyProblem

# Key → the modules, one of which must be there.
NEEDED: dict[str, tuple[tuple[str, ...], ...]] = {
    "use_unsloth": (("unsloth",),),
    "enable_liger_kernel": (("liger_kernel",),),
    "use_liger_kernel": (("liger_kernel",),),
    "use_galore": (("galore_torch",),),
    "use_apollo": (("apollo_torch",),),
    "use_badam": (("badam",),),
    "use_adam_mini": (("adam_mini",),),
    "mixture_of_depths": (("MoD",),),
    "use_kt": (("kt_kernel",),),
    "use_hyper_parallel": (("hyper_parallel",),),
    "use_swanlab": (("swanlab",),),
    "plot_loss": (("matplotlib",),),
    "deepspeed": (("deepspeed",),),
    "predict_with_generate": (("jieba",), ("nltk",), ("rouge_chinese",)),
}
QUANTIZERS = {"bnb": "bitsandbytes", "hqq": "hqq", "eetq": "eetq"}
REPORTERS: dict[str, tuple[str, ...]] = {
    "azure_ml": ("azureml",),
    "clearml": ("clearml",),
    "codecarbon": ("codecarbon",),
    "comet_ml": ("comet_ml",),
    "dagshub": ("dagshub",),
    "dvclive": ("dvclive",),
    "flyte": ("flytekit",),
    "kubeflow": ("kubeflow",),
    "mlflow": ("mlflow",),
    "neptune": ("neptune",),
    "swanlab": ("swanlab",),
    "tensorboard": ("tensorboard", "tensorboardX"),
    "trackio": ("trackio",),
    "wandb": ("wandb",),
}
OPTIMIZERS = (
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


def missing_packages(s: ConfigContext) -> Iterator[KeyProblem]:
    """An error for each key whose package the engine does not have."""
    for key, modules in _required_packages(s):
        if not any(s.catalog.has_package(module) for module in modules):
            level = "error" if s.installed else "warning"
            yield level, key, f"needs the package {modules[0]}, which the engine does not have; leave it out"  # type: ignore[misc]


def _required_packages(s: ConfigContext) -> Iterator[tuple[str, Sequence[str]]]:
    for key in s.set(*NEEDED):
        for modules in NEEDED[key]:
            yield key, modules
    if s.set("quantization_bit") and s.get("quantization_method") in QUANTIZERS:
        yield "quantization_bit", (QUANTIZERS[s.get("quantization_method")],)
    if s.set("fp8") and s.get("fp8_backend") in ("torchao", "te", "msamp"):
        yield "fp8_backend", ({"te": "transformer_engine"}.get(s.get("fp8_backend"), s.get("fp8_backend")),)
    if s.get("infer_backend") in ("vllm", "sglang"):
        yield "infer_backend", (str(s.get("infer_backend")),)
    for name in report_services(s):
        if name in REPORTERS:
            yield "report_to", REPORTERS[name]
    optim = str(s.get("optim"))
    if package := next((package for start, package in OPTIMIZERS if optim.startswith(start)), None):
        yield "optim", (package,)


def report_services(s: ConfigContext) -> list[str]:
    """The services that the training's figures are sent to."""
    value = s.get("report_to")
    return [str(v) for v in value] if isinstance(value, list) else [str(value)]
