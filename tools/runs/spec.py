"""Turn options and settings into a RunSpec: an option wins over the environment, the environment over the default."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.run_spec import Guard, RunSpec, SandboxKind
from tuneloop.core.settings import Settings
from tuneloop.tools.benchmark_items import resolve
from tuneloop.tools.hub import datasets, models

DEFAULT_BENCHMARK = "wordproblems"
DEFAULT_MODEL = "tiny"
OPTION = {"datasets": "--dataset", "guards": "--max-regression"}
ENV_TYPES = {"conda": "bubblewrap", "local": "bubblewrap"}  # both ran on the host


def option_name(field: str) -> str:
    """`--base-model`: the option of `tuneloop run` that sets a field of RunSpec."""
    return OPTION.get(field, "--" + field.replace("_", "-"))


def spec_from_options(options: Mapping[str, str], settings: Settings) -> RunSpec:
    """The spec of a `run` command: options by field or by option name, lists separated by commas.

    Raises InvalidRequestError in one line that names the option.
    """
    fields = {option.removeprefix("--").replace("-", "_"): field for field, option in OPTION.items()}
    given: dict[str, Any] = {fields.get(name, name): value for name, value in options.items()}
    return build_spec({name: (value,) if name in OPTION else value for name, value in given.items()}, settings)


def build_spec(given: Mapping[str, Any], settings: Settings, again: RunSpec | None = None) -> RunSpec:
    """The spec of a new run. `given`: options by field name, None or empty when not given; `again`: a run to repeat.

    Raises InvalidRequestError in one line that names the option.
    """
    options = {name: value for name, value in given.items() if value not in (None, ())}
    base = again.model_dump() if again else from_settings(settings, options.get("benchmark"))
    values = {**base, **options}
    several = [part for name in split_names([values["benchmark"], *values.get("also", ())]) for part in family(name)]
    values["benchmark"], *values["also"] = dict.fromkeys(locate(name, resolve.registered_names()) for name in several)
    values["base_model"] = locate(
        values.get("base_model") or default_model(values["benchmark"], settings), models.registered_models()
    )
    values["guards"] = [part for text in values.get("guards", ()) for part in guarded(text)]
    values["datasets"] = tuple(locate(name, datasets.registered_datasets()) for name in split_names(values["datasets"]))
    try:
        return RunSpec(**values)
    except ValidationError as e:
        first = e.errors()[0]
        field = str(first["loc"][0])
        option = option_name(field)
        value = "" if field == "guards" else f" {first['input']!r}"
        raise InvalidRequestError(f"{option}{value}: {first['msg'].removeprefix('Value error, ')}") from e


def from_settings(settings: Settings, benchmark: str | None) -> dict[str, Any]:
    """What the environment asks for; its description belongs to its own benchmark, not to another one."""
    target = benchmark or target_benchmark(settings)
    own = benchmark is None or benchmark == settings.target_benchmark or not settings.target_benchmark
    return {
        "benchmark": target,
        "also": () if benchmark else benchmark_names(settings),
        "benchmark_description": settings.benchmark_description if own else None,
        "base_model": settings.base_model,
        "datasets": settings.dataset,
        "upper_data_size_limit": settings.upper_data_size_limit,
        "benchmark_limit": settings.benchmark_limit,
        "sandbox": sandbox(settings.env_type),
    }


def target_benchmark(settings: Settings) -> str:
    """`FT_TARGET_BENCHMARK`, else the first of `FT_BENCHMARK_DATASETS`, else the embedded one."""
    return settings.target_benchmark or next(iter(benchmark_names(settings)), DEFAULT_BENCHMARK)


def benchmark_names(settings: Settings) -> tuple[str, ...]:
    """`FT_BENCHMARK_DATASETS`, or `BENCHMARK_DATASETS`; () when neither is set. Raises InvalidRequestError on an empty list."""
    lists = (settings.target_benchmarks, settings.benchmark_list)
    names = next((names for names in lists if names is not None), None)
    if names == ():
        raise InvalidRequestError(
            "FT_BENCHMARK_DATASETS is an empty list: a run is decided by a benchmark; right is one name"
        )
    return names or ()


def family(name: str) -> tuple[str, ...]:
    """The benchmarks that a family's name stands for; any other name is itself."""
    return (resolve.family_members(name) or (name,)) if name in resolve.registered_names() else (name,)


def guarded(given: str | Mapping[str, Any]) -> Iterator[Guard]:
    """`mmlu:-2,gsm8k:-1`, or a guard of a run that is repeated; of a family every part. Raises InvalidRequestError."""
    for text in given.split(",") if isinstance(given, str) else [given]:
        try:
            guard = Guard.model_validate(text)
        except ValidationError as e:
            raise InvalidRequestError(f"--max-regression {text!r}: right is BENCHMARK:-POINTS, e.g. mmlu:-2") from e
        for part in family(guard.benchmark):
            yield Guard(benchmark=locate(part, resolve.registered_names()), points=guard.points)


def default_model(benchmark: str, settings: Settings) -> str:
    """The embedded model for the embedded benchmark; for any other the user has to choose. Raises InvalidRequestError."""
    if benchmark == DEFAULT_BENCHMARK:
        return DEFAULT_MODEL
    resolve.check_benchmark(benchmark, settings)  # who mistyped this one wants to hear of that first
    raise InvalidRequestError(
        "no base model: right is --base-model FOLDER|ID, or FT_BASE_MODEL in the environment or .env"
    )


def sandbox(env_type: str | None) -> str:
    """`FT_Coder_CoSTEER_env_type` in our words. Raises InvalidRequestError on a kind that nobody knows."""
    known = (*get_args(SandboxKind), *ENV_TYPES)
    kind = (env_type or "auto").lower()
    if kind not in known:
        raise InvalidRequestError(f"FT_Coder_CoSTEER_env_type={env_type!r}: right is one of {', '.join(known)}")
    return ENV_TYPES.get(kind, kind)


def split_names(values: Sequence[str]) -> list[str]:
    """Repeated options and commas; a path that exists is never split."""
    parts = [[v] if Path(v).expanduser().exists() else v.split(",") for v in values]
    return [name.strip() for group in parts for name in group if name.strip()]


def locate(name: str, registered: Collection[str]) -> str:
    """Paths become absolute, so that the spec means the same in any working directory; names stay as they are."""
    if name in registered:
        return name
    path = Path(name).expanduser()
    if name.startswith((".", "/", "~")) or path.exists():
        return str(path.absolute())
    return name
