"""A user's benchmark: a folder with `benchmark.yaml`, `validation.jsonl` and `test.jsonl`, checked and copied apart."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from tuneloop.core.catalog import VERIFIER, Benchmark, Calls, Item, Verified
from tuneloop.core.errors import DamagedFileError, InvalidRequestError
from tuneloop.core.files import digest, parse_json, raw_lines, read_bytes, read_text, write_atomic, write_lines
from tuneloop.core.layout import Home
from tuneloop.core.plain_yaml import PlainLoader
from tuneloop.tools.benchmark_items.checks import (
    check_answer_format,
    check_disjoint_splits,
    check_gold,
    check_ids,
    template_fields,
)
from tuneloop.tools.benchmark_items.folder import TEST, VALIDATION, BenchmarkFolder, item_line, open_folder
from tuneloop.tools.benchmark_items.splitting import seal_half
from tuneloop.tools.benchmark_items.training_items import list_text
from tuneloop.tools.hub.store import make_complete
from tuneloop.tools.registry import did_you_mean
from tuneloop.tools.scoring import answer_matching

DECLARATION = "benchmark.yaml"
SPLITS = ("validation", "test")
# What a folder that holds its splits has no use for.
CATALOG = frozenset(
    {"source", "more", "parts", "unavailable", "metrics", "validation_size", "test_size", "verifier", "engine"}
    | {"own_dataset"}
)
LARGEST_VERIFIER, LARGEST_DECLARATION = 1 << 18, 1 << 24  # bytes
Row = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class UserBenchmark:
    """A user's benchmark, read and found right."""

    benchmark: Benchmark
    validation: tuple[Item, ...]
    test: tuple[Item, ...]


def import_user_benchmark(source: Path, home: Home, description: str | None) -> BenchmarkFolder:
    """Copy the folder `source` to `benchmarks/<name>-<content hash>/`; `source` stays as it is. Raises InvalidRequestError."""
    own = read_user_benchmark(source, description)
    declaration = own.benchmark.model_dump_json(indent=1)
    contents = (declaration, *(item.model_dump_json() for item in (*own.validation, *own.test)))
    root = home.benchmarks / f"{own.benchmark.name}-{digest(*contents)}"

    def fill(part: Path) -> None:
        write_atomic(
            part / DECLARATION,
            yaml.safe_dump(own.benchmark.model_dump(mode="json", exclude=set(CATALOG)), sort_keys=False),
        )
        write_lines(part / VALIDATION, map(item_line, own.validation))
        write_lines(part / TEST, map(item_line, own.test))
        seal_half(part)

    return open_folder(own.benchmark, make_complete(root, fill))


def read_user_benchmark(source: Path, description: str | None = None) -> UserBenchmark:
    """Declaration and items of a user's folder, every line checked. Raises InvalidRequestError naming file and line."""
    benchmark = read_declaration(source / DECLARATION, description)
    check_answer_format(benchmark, DECLARATION)
    rows = {split: list(_rows(source / f"{split}.jsonl")) for split in SPLITS}
    used = template_fields(benchmark, (row for split in SPLITS for _, row in rows[split]), str(source / DECLARATION))
    validation, test = (
        [_item(benchmark, row, where, used, f"{split}-{i}") for i, (where, row) in enumerate(rows[split])]
        for split in SPLITS
    )
    for split, made in zip(SPLITS, (validation, test), strict=True):
        check_ids(made, str(source / f"{split}.jsonl"))
    check_disjoint_splits(benchmark, validation, test, str(source))
    return UserBenchmark(benchmark, tuple(validation), tuple(test))


def read_declaration(path: Path, description: str | None = None) -> Benchmark:
    """`benchmark.yaml`, with the task's text replaced by `description` when that is given. Raises InvalidRequestError."""
    values = _yaml(path)
    for key in values:
        if key not in (known := Benchmark.model_fields.keys() - CATALOG):
            raise InvalidRequestError(f"{path}: key {key!r} is unknown: {did_you_mean(str(key), sorted(known))}")
    if description is not None:
        values["description"] = description
    try:
        declared = Benchmark(**values)
        return (
            declared.model_copy(update={"verifier": read_verifier(path, declared)}) if declared.verified else declared
        )
    except ValidationError as e:
        first = e.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        given = "" if first["type"] == "missing" else f" (given: {str(first['input'])[:80]!r})"
        raise InvalidRequestError(f"{path}: {key}: {first['msg'].removeprefix('Value error, ')}{given}") from e


def read_verifier(declaration: Path, benchmark: Benchmark) -> str:
    """The source of the verifier, a file beside the declaration; nothing of it runs here. Raises InvalidRequestError."""
    name = benchmark.answer.removeprefix(VERIFIER)
    right = f"right is {VERIFIER}FILE, a Python file beside {DECLARATION} with a function score(answer, item)"
    where = f"{declaration}: answer: {benchmark.answer}"
    path = declaration.parent / name
    if not name.endswith(".py") or Path(name).name != name:
        raise InvalidRequestError(f"{where}: {right}")
    try:
        source = read_bytes(path)[: LARGEST_VERIFIER + 1].decode()
        functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError) as e:
        raise InvalidRequestError(f"{where}: {path} cannot be read: {e}; {right}") from e
    found = next((node for node in functions if node.name == "score"), None)
    if found is None or len(found.args.posonlyargs) + len(found.args.args) != 2:
        raise InvalidRequestError(f"{where}: {path} has no such function; {right}")
    if len(source) > LARGEST_VERIFIER:
        raise InvalidRequestError(f"{where}: {path} is longer than {LARGEST_VERIFIER >> 10} KiB")
    return source


class _Loader(PlainLoader):
    """Without aliases, by which a small file says something endless."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Any node. Raises ComposerError for an alias."""
        if self.check_event(yaml.AliasEvent):
            raise yaml.composer.ComposerError(None, None, "an alias; right is the value itself")
        node: yaml.Node | None = super().compose_node(parent, index)
        return node


def _yaml(path: Path) -> dict[str, Any]:
    try:
        values = yaml.load(read_text(path, LARGEST_DECLARATION), _Loader)  # noqa: S506 - it is the safe one
    except FileNotFoundError as e:
        raise InvalidRequestError(
            f"{path}: missing; right is a folder with {DECLARATION}, validation.jsonl, test.jsonl"
        ) from e
    except (OSError, DamagedFileError) as e:
        raise InvalidRequestError(f"{path}: cannot be read: {e}") from e
    except yaml.YAMLError as e:
        mark = getattr(e, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise InvalidRequestError(f"{path}{line}: not YAML: {getattr(e, 'problem', None) or e}") from e
    except (ValueError, RecursionError) as e:
        raise InvalidRequestError(f"{path}: a number of too many digits, or nesting without end: {str(e)[:80]}") from e
    if not isinstance(values, dict):
        raise InvalidRequestError(f"{path}: right is keys and values, at least name and description")
    return values


def _rows(path: Path) -> Iterator[Row]:
    """Rows with `file:line`."""
    try:
        lines = [(number, line) for number, line in enumerate(raw_lines(path), 1) if line.strip()]
    except FileNotFoundError as e:
        raise InvalidRequestError(f"{path}: missing; right is one JSON object a line") from e
    except DamagedFileError as e:
        raise InvalidRequestError(f"{path}: {e.reason}; right is one JSON object a line") from e
    if not lines:
        raise InvalidRequestError(f"{path}: no items; right is one JSON object a line")
    for number, line in lines:
        where = f"{path}:{number}"
        try:
            row = parse_json(line.decode())
        except UnicodeDecodeError as e:
            raise InvalidRequestError(f"{where}: not UTF-8 text: {e.reason} at byte {e.start}") from e
        except ValueError as e:
            raise InvalidRequestError(f"{where}: not JSON: {e}") from e
        if not isinstance(row, dict):
            raise InvalidRequestError(f'{where}: not a JSON object; right is {{"prompt": ..., "answer": ...}}')
        yield where, row


def _item(benchmark: Benchmark, row: dict[str, Any], where: str, used: tuple[str, ...], default_id: str) -> Item:
    for name in (*used, *(() if benchmark.verified else ("answer",))):
        if row.get(name) is None:
            raise InvalidRequestError(f"{where}: field {name!r} is missing")
    item_id = _scalar(row.get("id", default_id), "id", where)
    fields = {name: _text(benchmark, row[name], name, where) for name in used}
    if benchmark.verified:
        given = {name: value for name, value in row.items() if name != "id"}
        right = "" if row.get("answer") is None else _scalar(row["answer"], "answer", where)
        return Item(id=item_id, fields=fields, answer=right, calls=Verified(item=given), **_of(row, where))
    if benchmark.executed:
        return Item(id=item_id, fields=fields, answer=_values(row["answer"], where), calls=_calls(row, where))
    answer = _scalar(row["answer"], "answer", where)
    check_gold(benchmark, answer, where)
    return Item(id=item_id, fields=fields, answer=answer, **_of(row, where))


def _of(row: dict[str, Any], where: str) -> dict[str, str]:
    """Group and cluster, where the row says them."""
    return {name: _scalar(row[name], name, where) for name in ("group", "cluster") if row.get(name) is not None}


def _values(answer: object, where: str) -> str:
    """What calls have to give, as JSON. A text is a list written as JSON."""
    text = answer if isinstance(answer, str) else json.dumps(answer)
    found = answer_matching.gold("code", text)
    if found is None:
        raise InvalidRequestError(f"{where}: answer is no list; right is what each call has to give, e.g. [3, 7]")
    return found


def _calls(row: dict[str, Any], where: str) -> Calls:
    try:
        calls = Calls.model_validate(row.get("calls"))
    except ValidationError as e:
        wrong = ".".join(map(str, ("calls", *e.errors()[0]["loc"])))
        raise InvalidRequestError(
            f'{where}: {wrong}: {e.errors()[0]["msg"]}; right is e.g. "calls": {{"entry": "add", "inputs": [[1, 2], [3, 4]]}}'
        ) from e
    expected = len(json.loads(_values(row["answer"], where)))
    if expected != len(calls.inputs):
        raise InvalidRequestError(
            f"{where}: {len(calls.inputs)} inputs and {expected} answers; right is one answer for each"
        )
    return calls


def _text(benchmark: Benchmark, value: object, name: str, where: str) -> str:
    """A field as text; a list is written one entry a line, lettered where the answer is a letter."""
    if not isinstance(value, list):
        return _scalar(value, name, where)
    return list_text(benchmark, [_scalar(entry, name, where) for entry in value])


def _scalar(value: object, name: str, where: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    raise InvalidRequestError(f"{where}: field {name!r} is {type(value).__name__}; right is a text or a number")
