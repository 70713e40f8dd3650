"""All parameters of the installed LLaMA-Factory and transformers, read from their source without importing them."""

from __future__ import annotations

import ast
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import read_json
from tuneloop.tools.config.source_ast import (
    SourceField,
    ValueShape,
    evaluate_default,
    is_literal,
    read_enums,
    read_fields,
    read_module,
    value_shape,
)
from tuneloop.tools.config.templates import Template, read_templates

# What an engine's own classes said of every parameter when it was built.


@dataclass(frozen=True)
class Snapshot:
    """`parameters`: name → default, choices, settable."""

    path: Path
    versions: Mapping[str, str]
    parameters: Mapping[str, Mapping[str, Any]]


def read_snapshot(path: Path) -> Snapshot:
    """The snapshot in a file. Raises InvalidRequestError when it is none."""
    try:
        given = read_json(path)
        return Snapshot(path, given["versions"], given["parameters"])
    except (ValueError, KeyError, TypeError) as e:
        raise InvalidRequestError(
            f"{path}: no snapshot of parameters; delete it, `tuneloop params diff` makes it again"
        ) from e


HPARAMS = ("model_args", "data_args", "training_args", "finetuning_args", "generating_args")
TRANSFORMERS = ("training_args_seq2seq", "training_args", "trainer_utils")
SNAPSHOT = "parameters.json"
ROOTS = ("ModelArguments", "DataArguments", "TrainingArguments", "FinetuningArguments", "GeneratingArguments")

Enums = Mapping[str, Mapping[str, str]]
Stamp = tuple[tuple[Path, int, int], ...]
_LOCK = threading.Lock()


@dataclass(frozen=True)
class Parameter:
    """One key of `train.yaml`; `default` is source text where it is neither literal nor in the engine's snapshot.

    `settable`: False where the engine sets it. `literal`: whether the source alone gives the default.
    """

    name: str
    owner: str
    type: str
    kinds: frozenset[str]
    choices: tuple[Any, ...]
    default: Any
    help: str
    file: str
    line: int
    settable: bool = True
    literal: bool = True

    @property
    def source(self) -> str:
        """`file:line` below site-packages."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, eq=False)
class Catalog:
    """Parameters and chat templates of one engine, by name; `factory` is the folder of its package llamafactory."""

    site_packages: Path
    factory: Path
    versions: Mapping[str, str]
    parameters: Mapping[str, Parameter] = field(repr=False)
    template_file: Path = field(repr=False)
    snapshot: Snapshot | None = field(default=None, repr=False)

    @cached_property
    def templates(self) -> Mapping[str, Template]:
        """Chat templates by name; read when they are first asked for: a third of the work."""
        return read_templates(self.template_file)

    def has_package(self, module: str) -> bool:
        """Whether the engine has an importable top-level module of that name."""
        return (self.site_packages / module).is_dir() or (self.site_packages / f"{module}.py").is_file()


def load_catalog(site_packages: Path, source: Path | None = None, snapshot: Path | None = None) -> Catalog:
    """Read a release's parameters; kept in memory until a source file changes.

    `source`: folder of a checkout whose package is read instead of the installed one. `snapshot`: what the engine said
    of itself when it was built, by default `parameters.json` in its folder. Raises InvalidRequestError without LLaMA-Factory or
    transformers.
    """
    files = _files(site_packages, source)
    beside = [path for path in (snapshot, *_snapshots(site_packages)) if path is not None and path.is_file()][:1]
    stamp = tuple((path, path.stat().st_mtime_ns, path.stat().st_size) for path in (*files, *beside))
    with _LOCK:  # who comes meanwhile waits for it instead of reading the same
        return _load(site_packages, stamp)


def _snapshots(site_packages: Path) -> list[Path]:
    """Where the snapshot of a whole environment lies: <environment>/lib/python3.x/site-packages."""
    return [site_packages.parents[2] / SNAPSHOT] if len(site_packages.parents) > 2 else []


def _files(site_packages: Path, source: Path | None = None) -> list[Path]:
    stamp = site_packages.stat().st_mtime_ns if site_packages.is_dir() else 0
    factory = source / "llamafactory" if source else _package(site_packages, "llamafactory", stamp)
    transformers = _package(site_packages, "transformers", stamp)
    files = [factory / "hparams" / f"{name}.py" for name in HPARAMS]
    files += [transformers / f"{name}.py" for name in TRANSFORMERS]
    files += [factory / "extras/constants.py", factory / "data/template.py"]
    for path in files:
        if not path.is_file():
            raise InvalidRequestError(
                f"{path}: missing; right is a release of LLaMA-Factory from 0.9.3 with transformers"
            )
    return files


@lru_cache(maxsize=16)
def _package(site_packages: Path, name: str, stamp: int) -> Path:  # noqa: ARG001 - the stamp is part of the key
    """The package's folder, also that of an editable install (a `.pth` file names its parent)."""
    parents = [site_packages]
    for link in sorted(site_packages.glob("*.pth")):
        lines = link.read_text(encoding="utf-8").splitlines()
        parents += [Path(line) for line in lines if line.startswith("/")]
    for parent in parents:
        if (parent / name / "__init__.py").is_file():
            return parent / name
    raise InvalidRequestError(
        f"{site_packages}: no {name} here; right is the site-packages folder of a llamafactory engine"
    )


@lru_cache(maxsize=8)
def _load(site_packages: Path, stamp: Stamp) -> Catalog:
    paths = [path for path, _, _ in stamp]
    sources, template_file = paths[: len(HPARAMS) + len(TRANSFORMERS) + 1], paths[len(HPARAMS) + len(TRANSFORMERS) + 1]
    snapshot = read_snapshot(paths[-1]) if paths[-1] != template_file else None
    modules = [read_module(path) for path in sources]
    hparams, others, enums = modules[: len(HPARAMS)], modules[len(HPARAMS) : -1], read_enums(modules)
    found: dict[str, Parameter] = {}
    for module, root in zip(hparams, ROOTS, strict=True):
        fields = read_fields(module, root, others)
        found |= {name: _with_snapshot_default(_parameter(item, enums), snapshot) for name, item in fields.items()}
    factory, transformers = template_file.parents[1], others[0].path.parent
    versions = {
        "llamafactory": _version(site_packages, factory, "llamafactory"),
        "transformers": _version(site_packages, transformers, "transformers"),
    }
    return Catalog(site_packages, factory, versions, found, template_file, snapshot)


def _with_snapshot_default(parameter: Parameter, snapshot: Snapshot | None) -> Parameter:
    """With the snapshot's default where the source alone gives none."""
    if parameter.literal or snapshot is None or parameter.name not in snapshot.parameters:
        return parameter
    return replace(parameter, default=snapshot.parameters[parameter.name]["default"])


def _parameter(item: SourceField, enums: Enums) -> Parameter:
    options = _options(item.node.value)
    form: ValueShape = value_shape(item.node.annotation, enums)
    return Parameter(
        name=item.name,
        owner=item.owner,
        type=ast.unparse(item.node.annotation).replace("'", '"'),
        kinds=form.kinds,
        choices=form.choices,
        default=_default(item, options, enums),
        help=_help(options),
        file=f"{item.file.parent.name}/{item.file.name}",
        line=item.node.lineno,
        literal=all(is_literal(options[name], enums) for name in ("default", "default_factory") if name in options),
        settable=not (isinstance(options.get("init"), ast.Constant) and options["init"].value is False),  # type: ignore[attr-defined]
    )


def _options(value: ast.expr | None) -> dict[str, ast.expr]:
    """Keywords of `field(...)`; a plain default counts as `default`."""
    match value:
        case None:
            return {}
        case ast.Call(func=ast.Name(id="field"), keywords=keywords):
            return {k.arg: k.value for k in keywords if k.arg}
    return {"default": value}


def _default(item: SourceField, options: Mapping[str, ast.expr], enums: Enums) -> Any:
    if "default" in options:
        return evaluate_default(options["default"], item.constants, enums)
    match options.get("default_factory"):
        case ast.Name(id="list"):
            return []
        case ast.Name(id="dict"):
            return {}
        case None:
            return None
        case node:
            return ast.unparse(node)


def _help(options: Mapping[str, ast.expr]) -> str:
    match options.get("metadata"):
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "help":
                    return _text(value)
    return ""


def _text(node: ast.expr) -> str:
    """Literal text; parts that are computed are left out."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.BinOp(left=left, right=right):
            return _text(left) + _text(right)
        case ast.JoinedStr(values=values):
            return "".join(map(_text, values))
    return ""


def _version(site_packages: Path, package: Path, name: str) -> str:
    """Of an installed package from its metadata, of a checkout from the line that says it."""
    if package.parent == site_packages:
        found = sorted(site_packages.glob(f"{name}-*.dist-info"))
        if found:
            return found[0].name.removeprefix(f"{name}-").removesuffix(".dist-info")
    for path in (package / "extras/env.py", package / "__init__.py"):
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        if match := re.search(r"""^(?:VERSION|__version__)\s*=\s*["']([^"']+)["']""", text, re.MULTILINE):
            return match[1]
    return "unknown"
