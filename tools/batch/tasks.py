"""What a batch is asked for: tasks times scenarios, from JSON or YAML, checked whole before anything starts.

The files of RD-Agent's job runner (`tasks.json`, `scenarios.json`) are read as they are. A task here may hold any option of
`tuneloop run` by its name, too.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ByteSize, ConfigDict, Field, ValidationError, field_validator

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.run_spec import RunSpec
from tuneloop.core.settings import Settings
from tuneloop.tools.runs.request import folder_name
from tuneloop.tools.runs.spec import OPTION, build_spec, command_words

LARGEST = 1 << 20  # bytes of a file of tasks
MOST_RUNS = 1000
LONGEST_NAME = 60  # characters of a batch's name: those of its runs begin with it, and have 80; and of a scenario's
OWN = ("name", "gpus", "device_memory", "port", "scenario")
OTHER_NAMES = {
    "model": "base_model",
    **{option.removeprefix("--").replace("-", "_"): field for field, option in OPTION.items()},
}
REFUSED = {"approve": "a batch asks nobody", "sandbox": "it holds for all runs: set FT_Coder_CoSTEER_env_type"}
OPTIONS = frozenset(RunSpec.model_fields) - {"also", *REFUSED}
DESCRIPTIONS = frozenset({"category", "scenario", "benchmark_description"})


class BatchTask(BaseModel):
    """One run of a batch, as it is kept on disk.

    Attributes:
        run_id: the run's name.
        benchmark: what it is measured by, with further benchmarks behind commas.
        scenario: name of the options that it shares with other tasks; "" without scenarios.
        options: options of `tuneloop run` by field name.
        gpus: how many GPUs it needs, or their numbers; () leaves the choice to the run.
        device_memory: bytes that it needs on each GPU; None: it shares a GPU with no other run.
        port: port of a local endpoint that its models are asked at.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_id: str
    benchmark: str
    model: str
    scenario: str = ""
    options: dict[str, Any]
    gpus: int | tuple[int, ...] = ()
    device_memory: ByteSize | None = Field(default=None, gt=0)
    port: int | None = Field(default=None, gt=0, lt=65536)

    @field_validator("gpus", mode="before")
    @classmethod
    def _gpus(cls, given: object) -> object:
        """`"0,1"` are two numbers, 2 is a count."""
        if isinstance(given, str):
            parts = [part.strip() for part in given.split(",") if part.strip()]
            if not all(part.isdigit() for part in parts) or len({*map(int, parts)}) < len(parts):
                raise ValueError('right is a count, e.g. 2, or numbers of GPUs, each once, e.g. "0,1"')
            return tuple(map(int, parts))
        if isinstance(given, int) and given < 0:
            raise ValueError("right is a count from 0, which is the CPU alone")
        return given

    @field_validator("options")
    @classmethod
    def _options(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Lists as tuples, which JSON does not tell apart."""
        return {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}

    @property
    def words(self) -> tuple[str, ...]:
        """Arguments of `tuneloop` that start it."""
        return ("run", *command_words({"run_id": self.run_id, **self.options}))


@dataclass(frozen=True)
class Document:
    """A file of tasks or scenarios: its values, and the line of each place in it; values from Python have no lines."""

    path: Path
    values: Any
    lines: Mapping[tuple[Any, ...], int]

    def at(self, *place: Any) -> str:
        """`tasks.json, line 7`: as near to the place as is known; `tasks[0]['model']` where there are no lines."""
        if not self.lines:
            return self.path.name + "".join(f"[{_quoted(part)}]" for part in place)
        while place and place not in self.lines:
            place = place[:-1]
        return f"{self.path.name}, line {self.lines.get(place, 1)}"


def read_document(path: Path) -> Document:
    """Read JSON or YAML.

    Raises:
        InvalidRequestError: it is not there, too large, or cannot be parsed; with the line.
    """
    try:
        if path.stat().st_size > LARGEST:
            raise InvalidRequestError(f"{path}: larger than {LARGEST >> 20} MiB; right is a list of tasks")
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as e:
        raise InvalidRequestError(f"{path}: cannot be read: {getattr(e, 'strerror', None) or 'not UTF-8 text'}") from e
    return parse_document(path, text)


def parse_document(path: Path, text: str) -> Document:
    """The document of a text. Raises InvalidRequestError with the line."""
    if path.suffix == ".json":
        try:
            json.loads(text)
        except (ValueError, RecursionError) as e:
            where = f", line {e.lineno}: {e.msg}" if isinstance(e, json.JSONDecodeError) else ": nested too deeply"
            raise InvalidRequestError(f"{path.name}{where}") from e
        text = text.replace("\t", " ")  # blanks in JSON, refused by YAML
    try:
        root = yaml.compose(text, Loader=_NoAliases)
        lines: dict[tuple[Any, ...], int] = {}
        return Document(path, _value(root, (), lines), lines)
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        raise InvalidRequestError(f"{path.name}, line {mark.line + 1 if mark else 1}: {e.problem}") from e
    except (yaml.YAMLError, RecursionError, ValueError) as e:
        raise InvalidRequestError(f"{path.name}: not YAML: {str(e).splitlines()[0]}") from e


class _NoAliases(yaml.SafeLoader):
    """Without aliases, by which a small file says something endless."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._seen: set[int] = set()

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        node: yaml.Node | None = super().compose_node(parent, index)
        if node is not None and id(node) in self._seen:
            raise yaml.composer.ComposerError(None, None, "an alias; right is the value itself", node.start_mark)
        self._seen.add(id(node))
        return node


def _value(node: yaml.Node | None, place: tuple[Any, ...], lines: dict[tuple[Any, ...], int]) -> Any:
    """The plain value of a node; notes the line of each part."""
    if node is None:
        return None
    lines[place] = node.start_mark.line + 1
    if isinstance(node, yaml.SequenceNode):
        return [_value(part, (*place, i), lines) for i, part in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode):
        return yaml.SafeLoader("").construct_object(node)
    found: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = str(key_node.value)
        if key in found:
            raise yaml.constructor.ConstructorError(None, None, f"{key!r} stands there twice", key_node.start_mark)
        found[key] = _value(value_node, (*place, key), lines)
        lines[(*place, key)] = key_node.start_mark.line + 1
    return found


def read_batch(
    batch_id: str,
    tasks: Document,
    scenarios: Document | None,
    settings: Settings,
    check: Callable[[RunSpec], None],
    given: Mapping[str, Any] | None = None,
) -> tuple[BatchTask, ...]:
    """Every run of a batch.

    Args:
        batch_id: begins the name of each run.
        tasks: `{"tasks": […]}` or a list; in YAML also `defaults` and `scenarios`.
        scenarios: descriptions by benchmark, as in `scenarios.json`, or options by scenario.
        settings: what tasks leave open.
        check: refuses a spec that no run could be started with.
        given: fields of every task that does not name them.

    Raises:
        InvalidRequestError: the first thing that is wrong, with file, line and field.
    """
    if len(batch_id) > LONGEST_NAME:
        raise InvalidRequestError(f"--name {batch_id}: right are {LONGEST_NAME} characters at most")
    head = tasks.values if isinstance(tasks.values, dict) else {"tasks": tasks.values}
    _known(head, ("tasks", "defaults", "scenarios"), tasks, ())
    rows = head.get("tasks")
    if not isinstance(rows, list) or not rows:
        raise InvalidRequestError(
            f'{tasks.at("tasks")}: no tasks; right is {{"tasks": [{{"model": …, "benchmark": …}}]}}'
        )
    descriptions, variants = _scenarios(tasks, head.get("scenarios"), scenarios)
    if len(rows) * len(variants) > MOST_RUNS:
        raise InvalidRequestError(f"{tasks.path.name}: {len(rows) * len(variants)} runs; right are {MOST_RUNS} at most")
    defaults = {**(given or {}), **_options(head.get("defaults") or {}, tasks, ("defaults",))}
    found: list[BatchTask] = []
    where: dict[str, str] = {}
    start = ("tasks",) if isinstance(tasks.values, dict) else ()
    for i, row in enumerate(rows):
        place = (*start, i)
        own = _options(row, tasks, place)
        for scenario, shared in variants.items():
            merged = {**defaults, **shared, **own}
            described = descriptions.get(str(merged.get("benchmark")))
            if described and "benchmark_description" not in merged:
                merged["benchmark_description"] = described
            task = _task(batch_id, len(found) + 1, merged, scenario, tasks, place, settings, check)
            same = json.dumps(task.model_dump(exclude={"run_id", "gpus", "port"}), sort_keys=True)
            if same in where:
                raise InvalidRequestError(
                    f"{tasks.at(*place)}: the same task as {where[same]}; right is another seed, option or scenario"
                )
            where[same] = tasks.at(*place)
            found.append(task)
    return tuple(found)


def _scenarios(tasks: Document, own: object, file: Document | None) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """Descriptions by benchmark, and options by scenario."""
    descriptions: dict[str, str] = {}
    variants: dict[str, dict[str, Any]] = {}
    for document, values, place in ((tasks, own, ("scenarios",)), (file, file.values if file else None, ())):
        if document is None or values is None:
            continue
        if not isinstance(values, dict):
            raise InvalidRequestError(f"{document.at(*place)}: right is an object of scenarios by name")
        for name, entry in values.items():
            if isinstance(entry, dict) and entry and entry.keys() <= DESCRIPTIONS:
                descriptions[name] = str(entry.get("benchmark_description", ""))
            elif not name.isprintable() or not 0 < len(name) <= LONGEST_NAME:
                right = f"right is a name of 1 to {LONGEST_NAME} printable characters"
                raise InvalidRequestError(f"{document.at(*place, name)}: scenario {_quoted(name)}: {right}")
            else:
                variants[name] = _options(entry or {}, document, (*place, name))
    return {name: text for name, text in descriptions.items() if text}, variants or {"": {}}


def _options(row: object, document: Document, place: tuple[Any, ...]) -> dict[str, Any]:
    """Options by field name, as a row of the file names them. Raises InvalidRequestError."""
    if not isinstance(row, dict):
        raise InvalidRequestError(f"{document.at(*place)}: right is an object with fields, e.g. model and benchmark")
    fields = {name: OTHER_NAMES.get(name.replace("-", "_"), name.replace("-", "_")) for name in row}
    for name, field in fields.items():
        if field in REFUSED:
            raise InvalidRequestError(f"{document.at(*place, name)}: {name}: {REFUSED[field]}")
    _known({fields[name]: None for name in row}, (*OPTIONS, *OWN), document, place)
    return {fields[name]: value for name, value in row.items() if value is not None}


def _known(given: Mapping[str, Any], known: Collection[str], document: Document, place: tuple[Any, ...]) -> None:
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, [*known, *OTHER_NAMES], n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"right is one of {', '.join(sorted(known))}"
            raise InvalidRequestError(f"{document.at(*place, name)}: no field {_quoted(name)}: {hint}")


def resolved_options(spec: RunSpec, options: dict[str, Any]) -> dict[str, Any]:
    """Names and folders as the spec has them: a batch may be resumed from another folder than paths are relative to."""
    found: dict[str, Any] = {"benchmark": ",".join((spec.benchmark, *spec.also)), "base_model": spec.base_model}
    if options.get("datasets"):
        found["datasets"] = spec.datasets
    if options.get("guards"):
        found["guards"] = tuple(f"{guard.benchmark}:-{guard.points:g}" for guard in spec.guards)
    return found


def _task(
    batch_id: str,
    number: int,
    merged: dict[str, Any],
    scenario: str,
    document: Document,
    place: tuple[Any, ...],
    settings: Settings,
    check: Callable[[RunSpec], None],
) -> BatchTask:
    """One task with its spec checked. Raises InvalidRequestError with the line."""
    own = {name: merged.pop(name) for name in OWN if name in merged}
    for field in ("benchmark", "base_model"):
        if not merged.get(field):
            name = "model" if field == "base_model" else field
            raise InvalidRequestError(f"{document.at(*place)}: {name} is missing")
    options = {name: _plain(name, value) for name, value in merged.items()}
    try:
        spec = build_spec(options, settings)
        if spec.loop_n is None and spec.timeout is None:
            options["timeout"] = "12h"  # the job runner's default
            spec = build_spec(options, settings)
        check(spec)
        return BatchTask(
            run_id=folder_name(
                "-".join(
                    filter(None, (batch_id, str(number), _short(spec.benchmark), _short(spec.base_model), scenario))
                )
            ),
            benchmark=",".join(map(_short, spec.measured)),
            model=_short(spec.base_model),
            scenario=scenario,
            options={**options, **resolved_options(spec, options)},
            gpus=own.get("gpus", ()),
            device_memory=own.get("device_memory"),
            port=own.get("port"),
        )
    except ValidationError as e:
        first = e.errors()[0]
        field = str(first["loc"][0])
        raise InvalidRequestError(
            f"{document.at(*place, field)}: {field}: {first['msg'].removeprefix('Value error, ')}"
        ) from e
    except InvalidRequestError as e:
        raise InvalidRequestError(f"{document.at(*place)}: {e}") from e


def _plain(name: str, value: Any) -> Any:
    """As the command line has it: lists are tuples of texts, numbers of the text fields are texts."""
    if name in OPTION:
        return tuple(map(str, value)) if isinstance(value, list) else (str(value),)
    if name == "benchmark" and isinstance(value, list):
        return ",".join(map(str, value))
    return value


def _quoted(name: object) -> str:
    """For a message of one line."""
    return repr(name if isinstance(name, int) else str(name)[:LONGEST_NAME])


def _short(name: str) -> str:
    """A name for tables and folders: of a path its last part."""
    return Path(name).name
