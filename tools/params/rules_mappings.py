"""Rules about keys whose value is a mapping: JSON that can be read, names and pairs inside that the engine takes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from tuneloop.tools.params.files import json_value
from tuneloop.tools.params.finding import Complaint
from tuneloop.tools.params.situation import Situation

ACCELERATOR = frozenset(
    {
        *("split_batches", "dispatch_batches", "even_batches", "use_seedable_sampler", "non_blocking"),
        *("gradient_accumulation_kwargs", "use_configured_state"),
    }
)


def mapping_rules(s: Situation) -> Iterator[Complaint]:
    """What is wrong inside the config's mappings."""
    yield from _unread(s)
    yield from _accelerator(s)
    yield from _fsdp(s)


def _unread(s: Situation) -> Iterator[Complaint]:
    """The engine reads a text that begins with a brace as JSON, and fails where it is none."""
    for key in s.set(*s.config.values):
        value, parameter = s.config.values[key], s.catalog.parameters.get(key)
        if parameter is None or "dict" not in parameter.kinds or not str(value).startswith("{"):
            continue
        try:
            json.loads(value if isinstance(value, str) else "{}")
        except ValueError as e:
            yield "error", key, f"is no JSON ({e}); write it as a mapping, without quotes"


def _accelerator(s: Situation) -> Iterator[Complaint]:
    given = json_value(s.get("accelerator_config"), s.here)
    wrong = [str(name) for name in given if name not in ACCELERATOR] if isinstance(given, Mapping) else []
    if wrong:
        yield (
            "error",
            "accelerator_config",
            f"{wrong[0]} is nothing that it takes; right is {', '.join(sorted(ACCELERATOR))}",
        )


def _fsdp(s: Situation) -> Iterator[Complaint]:
    given = json_value(s.get("fsdp_config"), s.here)
    if not s.set("fsdp") or not isinstance(given, Mapping):
        return
    inside = {str(name).removeprefix("fsdp_"): value for name, value in given.items()}
    if inside.get("min_num_params") and inside.get("transformer_layer_cls_to_wrap") is not None:
        yield (
            "error",
            "fsdp_config",
            "min_num_params cannot go with transformer_layer_cls_to_wrap there; keep one of them",
        )
    if _said(inside, "sync_module_states") == "false" and _said(inside, "cpu_ram_efficient_loading") == "true":
        yield "error", "fsdp_config", "cpu_ram_efficient_loading needs sync_module_states: true there"


def _said(inside: Mapping[str, object], name: str) -> str:
    return str(inside.get(name, "")).lower()
