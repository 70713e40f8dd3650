"""All parameters of the installed LLaMA-Factory and transformers, read from their source without importing them."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from tuneloop.core.errors import SetupError
from tuneloop.tools.params.source import Field, Shape, evaluate, read_enums, read_fields, read_module, shape
from tuneloop.tools.params.templates import Template, read_templates

HPARAMS = ("model_args", "data_args", "training_args", "finetuning_args", "generating_args")
TRANSFORMERS = ("training_args_seq2seq", "training_args", "trainer_utils")
ROOTS = ("ModelArguments", "DataArguments", "TrainingArguments", "FinetuningArguments", "GeneratingArguments")

Enums = Mapping[str, Mapping[str, str]]
Stamp = tuple[tuple[Path, int, int], ...]


@dataclass(frozen=True)
class Parameter:
    """One key of `train.yaml`; `default` is source text where it is no literal; not `settable`: set by the engine."""

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

    @property
    def source(self) -> str:
        """`file:line` below site-packages."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Catalog:
    """Parameters and chat templates of one engine, by name."""

    site_packages: Path
    versions: Mapping[str, str]
    parameters: Mapping[str, Parameter] = field(repr=False)
    templates: Mapping[str, Template] = field(repr=False)

    def has_package(self, module: str) -> bool:
        """Whether the engine has an importable top-level module of that name."""
        return (self.site_packages / module).is_dir() or (self.site_packages / f"{module}.py").is_file()


def load_catalog(site_packages: Path) -> Catalog:
    """Read the engine's parameters; kept in memory until a source file changes.

    Raises SetupError when `site_packages` has no LLaMA-Factory or no transformers.
    """
    files = _files(site_packages)
    stamp = tuple((path, path.stat().st_mtime_ns, path.stat().st_size) for path in files)
    return _load(site_packages, stamp)


def _files(site_packages: Path) -> list[Path]:
    factory, transformers = _package(site_packages, "llamafactory"), _package(site_packages, "transformers")
    files = [factory / "hparams" / f"{name}.py" for name in HPARAMS]
    files += [transformers / f"{name}.py" for name in TRANSFORMERS]
    files += [factory / "extras/constants.py", factory / "data/template.py"]
    for path in files:
        if not path.is_file():
            raise SetupError(f"{path}: missing; right is a release of LLaMA-Factory from 0.9.3 with transformers")
    return files


def _package(site_packages: Path, name: str) -> Path:
    """The package's folder, also that of an editable install (a `.pth` file names its parent)."""
    parents = [site_packages]
    for link in sorted(site_packages.glob("*.pth")):
        lines = link.read_text(encoding="utf-8").splitlines()
        parents += [Path(line) for line in lines if line.startswith("/")]
    for parent in parents:
        if (parent / name / "__init__.py").is_file():
            return parent / name
    raise SetupError(f"{site_packages}: no {name} here; right is the site-packages folder of a llamafactory engine")


@lru_cache(maxsize=8)
def _load(site_packages: Path, stamp: Stamp) -> Catalog:
    *sources, template_file = [path for path, _, _ in stamp]
    modules = [read_module(path) for path in sources]
    hparams, others, enums = modules[: len(HPARAMS)], modules[len(HPARAMS) : -1], read_enums(modules)
    found: dict[str, Parameter] = {}
    for module, root in zip(hparams, ROOTS, strict=True):
        fields = read_fields(module, root, others)
        found |= {name: _parameter(item, enums) for name, item in fields.items()}
    versions = {name: _version(site_packages, name) for name in ("llamafactory", "transformers")}
    return Catalog(site_packages, versions, found, read_templates(template_file))


def _parameter(item: Field, enums: Enums) -> Parameter:
    options = _options(item.node.value)
    form: Shape = shape(item.node.annotation, enums)
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


def _default(item: Field, options: Mapping[str, ast.expr], enums: Enums) -> Any:
    if "default" in options:
        return evaluate(options["default"], item.constants, enums)
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


def _version(site_packages: Path, name: str) -> str:
    found = sorted(site_packages.glob(f"{name}-*.dist-info"))
    return found[0].name.removeprefix(f"{name}-").removesuffix(".dist-info") if found else "unknown"
