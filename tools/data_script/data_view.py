"""What a data script sees of the raw data: all of it, or what the user's directives leave."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tuneloop.core.constraints import is_allowed
from tuneloop.core.directive import Sources
from tuneloop.core.directive_log import open_directives
from tuneloop.core.files import digest
from tuneloop.core.layout import RunFolder

MOST = 2000  # files of one data set that are looked at one by one


@dataclass(frozen=True)
class DataView:
    """`root`: the folder named in DATASETS_DIR, links only; `read`: where they lead; `key`: "" where all is seen."""

    root: Path
    read: tuple[str, ...]
    key: str = ""


def source_commands(run: RunFolder) -> tuple[Sources, ...]:
    """The open directives about sources."""
    return tuple(d.command for d in open_directives(run.directives) if isinstance(d.command, Sources))


def data_view(run: RunFolder, datasets: Mapping[str, Path], commands: tuple[Sources, ...]) -> DataView:
    """The links of the run, or a folder of links to what may be read; made once for the same directives."""
    if not commands:
        return DataView(run.root / "datasets", tuple(str(place) for place in datasets.values()))
    key = digest(*(command.model_dump_json() for command in commands))[:16]
    root, read = run.root / f"datasets-{key}", list[str]()
    for name, place in datasets.items():
        if not is_allowed(commands, name):
            continue
        root.mkdir(parents=True, exist_ok=True)
        if place.is_dir() and is_whole_allowed(commands, name, place):
            ensure_link(root / name, place)
            read.append(str(place))
            continue
        for file in dataset_files(place):
            if is_allowed(commands, name, file):
                target = place / file if place.is_dir() else place
                ensure_link(root / name / file, target)
                read.append(str(target))
    root.mkdir(parents=True, exist_ok=True)
    return DataView(root, tuple(read), key)


def is_whole_allowed(commands: Iterable[Sources], name: str, place: Path) -> bool:
    """Whether no file of it is ruled out."""
    return all(is_allowed(commands, name, file) for file in dataset_files(place))


def dataset_files(place: Path) -> Iterator[str]:
    """Files of a data set, relative, in order; of very large ones the first. A data set may be one file."""
    if place.is_file():
        yield place.name
    found = sorted(p.relative_to(place).as_posix() for p in place.rglob("*") if p.is_file()) if place.is_dir() else []
    yield from found[:MOST]


def source_names(datasets: Mapping[str, Path]) -> tuple[str, ...]:
    """Names that people may use: data sets, and their files."""
    return tuple(
        source
        for name, place in datasets.items()
        for source in (name, *(f"{name}/{file}" for file in dataset_files(place) if not file.startswith(".")))
    )


def ensure_link(place: Path, target: Path) -> None:
    """A link, made again where it leads elsewhere."""
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_symlink() and os.readlink(place) == str(target):  # noqa: PTH115 - compared as text
        return
    place.unlink(missing_ok=True)
    place.symlink_to(target)
