"""The one builder of a RunSpec: an option wins over the environment, the environment over the default.

Commands of the command line, of chats and of MCP clients are options; Python and Studio give a spec, whose names are looked up
here as well. `manifest.py` is the one reader.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import absolute_path
from tuneloop.core.run_spec import AUTO, NO_BENCHMARK, Guard, RunSpec, SandboxKind
from tuneloop.core.settings import Settings
from tuneloop.tools.benchmark_items import resolve
from tuneloop.tools.hub import datasets, models

DEFAULT_BENCHMARK = "wordproblems"
DEFAULT_MODEL = "tiny"
OPTION = {"datasets": "--dataset", "guards": "--max-regression"}
COMPARING = frozenset({"also", "loop_n", "parallel", "seeds", "guards"})  # what has no meaning without a benchmark
BOOLEAN = TypeAdapter(bool)
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


def command_words(options: Mapping[str, Any]) -> Iterator[str]:
    """Words for `tuneloop run` that say options by field name; `--name=value`, so that no value is taken for an option."""
    for name, value in options.items():
        field = RunSpec.model_fields.get(name)
        if field is not None and field.annotation is bool and is_boolean(value):
            yield from [option_name(name)] if BOOLEAN.validate_python(value) else []
        elif value not in (None, ()):
            yield from (f"{option_name(name)}={part}" for part in (value if isinstance(value, tuple) else (value,)))


def is_boolean(value: object) -> bool:
    """Whether it says yes or no."""
    try:
        BOOLEAN.validate_python(value)
    except ValidationError:
        return False
    return True


def build_spec(given: Mapping[str, Any], settings: Settings, base: RunSpec | None = None) -> RunSpec:
    """The spec of a new run.

    Args:
        given: options by field name; None or empty when not given.
        settings: what the environment asks for, where no `base` is given.
        base: a run to repeat, or a spec made in Python or Studio.

    Raises:
        InvalidRequestError: in one line that names the option.
    """
    options = {name: value for name, value in given.items() if value not in (None, ())}
    inherited = base.model_dump() if base else from_settings(settings, options.get("benchmark"))
    if (
        options.get("benchmark") == NO_BENCHMARK
    ):  # a run that is repeated without its benchmark compares nothing any more
        inherited = {name: value for name, value in inherited.items() if name not in COMPARING}
    elif base and options.get("benchmark", base.benchmark) != base.benchmark:
        inherited |= {"benchmark_description": None, "benchmark_limit": None}  # which are the other one's
    values = {**inherited, **options}
    for name in ("benchmark", "base_model"):
        if not isinstance(values.get(name), str | None):
            raise InvalidRequestError(
                f"{option_name(name)} {str(values[name])[:100]!r}: right is a name or a folder, as text"
            )
    if base is None and "sandbox" not in options:
        values["sandbox"] = spec_sandbox(settings)
    several = [part for name in split_names([values["benchmark"], *values.get("also", ())]) for part in family(name)]
    if not several:
        raise InvalidRequestError(
            f"--benchmark {values['benchmark']!r} names none: right is a name or folder, several with commas"
        )
    if NO_BENCHMARK in several and set(several) != {NO_BENCHMARK}:
        raise InvalidRequestError(
            f"--benchmark {','.join(several)}: {NO_BENCHMARK} evaluates nothing and stands alone; right is one or the other"
        )
    known = [NO_BENCHMARK, *resolve.registered_names()]
    values["benchmark"], *values["also"] = dict.fromkeys(locate(name, known) for name in several)
    values["base_model"] = locate(
        values.get("base_model") or default_model(values["benchmark"], settings), [AUTO, *models.registered_models()]
    )
    values["guards"] = [part for text in values.get("guards", ()) for part in guarded(text)]
    named = (datasets.checkout_file(name, settings) for name in split_names(values["datasets"]))
    values["datasets"] = tuple(locate(name, datasets.registered_datasets()) for name in named)
    return checked_spec(values if values["benchmark"] != NO_BENCHMARK else unevaluated_values(values))


def unevaluated_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a run without a benchmark: one experiment. Raises InvalidRequestError for what a benchmark would choose."""
    if values["base_model"] == AUTO:
        raise InvalidRequestError(
            "--base-model: without a benchmark no model can be chosen by a probe; right is its name"
        )
    if not values["datasets"]:
        raise InvalidRequestError(
            "--dataset: without a benchmark nothing says which data fit; right is the data to learn from"
        )
    return {**values, "loop_n": 1 if values.get("loop_n") is None else values["loop_n"]}


def checked_spec(values: Mapping[str, Any]) -> RunSpec:
    """A spec of these fields. Raises InvalidRequestError in one line that names the option."""
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
    own = benchmark is None or named_benchmark(settings) in (None, benchmark)
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


def named_benchmark(settings: Settings) -> str | None:
    """`FT_TARGET_BENCHMARK`, else the first of `FT_BENCHMARK_DATASETS`; None where neither names one."""
    return settings.target_benchmark or next(iter(benchmark_names(settings)), None)


def target_benchmark(settings: Settings) -> str:
    """The benchmark that the settings name, else the embedded one."""
    return named_benchmark(settings) or DEFAULT_BENCHMARK


def benchmark_names(settings: Settings) -> tuple[str, ...]:
    """`FT_BENCHMARK_DATASETS`, or `BENCHMARK_DATASETS`; () when neither is set, of an empty list `none`.

    Raises InvalidRequestError where the list is empty and `FT_TARGET_BENCHMARK` names one.
    """
    lists = (settings.target_benchmarks, settings.benchmark_list)
    names = next((names for names in lists if names is not None), None)
    if names == () and settings.target_benchmark:
        raise InvalidRequestError(
            "FT_BENCHMARK_DATASETS is an empty list, which evaluates nothing, and FT_TARGET_BENCHMARK is "
            f"{settings.target_benchmark}; right is one or the other"
        )
    return (NO_BENCHMARK,) if names == () else names or ()


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
    """The embedded model for the embedded benchmark, else one that the run chooses. Raises InvalidRequestError."""
    if benchmark == DEFAULT_BENCHMARK:
        return DEFAULT_MODEL
    if benchmark == NO_BENCHMARK:
        return AUTO
    resolve.check_benchmark(benchmark, settings)
    return AUTO


def spec_sandbox(settings: Settings) -> str:
    """What the environment asks of a run. `process` needs the owner's permission too, and stands in no spec."""
    kind = sandbox(settings.env_type)
    if kind == "process" and settings.unsandboxed != "always":
        raise InvalidRequestError(
            "FT_Coder_CoSTEER_env_type=process protects nothing: right is --sandbox process --allow-unsandboxed, "
            "TUNELOOP_UNSANDBOXED=always in the environment, or another sandbox"
        )
    return "auto" if kind == "process" else kind


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
    return str(absolute_path(name)) if is_path(name, registered) else name


def is_path(name: str, registered: Collection[str]) -> bool:
    """Whether a name is taken for a path: it looks like one, or is there, and is no entry's name."""
    return name not in registered and (name.startswith((".", "/", "~")) or Path(name).expanduser().exists())
