"""Raw data sets: one file an entry (`DATASET` and `fetch`), any folder or file of the user's, any hub id."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

from tuneloop.core.dataset import Dataset
from tuneloop.core.errors import SetupError
from tuneloop.core.layout import Home
from tuneloop.core.settings import Settings
from tuneloop.tools.hub import fetch_hub, is_hub_id
from tuneloop.tools.profiling.reading import records, sources
from tuneloop.tools.registry import entries, unknown
from tuneloop.tools.store import make_whole

HERE = sys.modules[__name__]


@dataclass(frozen=True)
class DatasetFolder:
    """A data set that is there: card and place (a folder, or one file)."""

    dataset: Dataset
    root: Path


def names() -> list[str]:
    """Registered data sets."""
    return list(entries(HERE, "DATASET"))


def card(name: str) -> Dataset:
    """Card of a registered data set."""
    found: Dataset = entries(HERE, "DATASET")[name].DATASET
    return found


def check(name: str) -> None:
    """Refuse what can be seen to be wrong before anything is fetched. Raises SetupError."""
    path = Path(name).expanduser()
    if name in names():
        return
    if path.exists():
        _check_records(path)
    elif name.startswith((".", "/", "~")):
        raise SetupError(f"dataset {path}: no such file or folder")
    elif not is_hub_id(name):
        raise unknown("dataset", name, names(), "or a folder, a file, or a hub id org/name")


def _check_records(path: Path) -> None:
    """At least one file must hold a record. Raises SetupError with the first file's own trouble."""
    troubles = []
    for file in sources(path):
        try:
            next(records(file, 1))
        except SetupError as e:
            troubles.append(e)
        else:
            return
    if troubles:
        raise troubles[0]
    raise SetupError(f"dataset {path}: no JSON, JSONL, CSV, TSV or Parquet file with records in it")


def resolve(name: str, home: Home, settings: Settings) -> DatasetFolder:
    """The data set, fetched when it is not there yet. Raises SetupError as `check` does."""
    check(name)
    found = entries(HERE, "DATASET")
    if name in found:
        return _registered(found[name], home)
    path = Path(name).expanduser()
    if path.exists():
        return DatasetFolder(Dataset(name=path.stem, description=f"files of {path.name}"), path.absolute())
    root = fetch_hub(name, "dataset", home.datasets / name, settings)
    return DatasetFolder(Dataset(name=name.replace("/", "--"), description=f"hub data set {name}"), root)


def resolve_all(names_: Sequence[str], home: Home, settings: Settings) -> list[DatasetFolder]:
    """Several data sets; two of one name (`a/data`, `b/data`) are told apart by a number."""
    found: list[DatasetFolder] = []
    for place in (resolve(name, home, settings) for name in names_):
        taken = {d.dataset.name for d in found}
        name, number = place.dataset.name, 2
        while name in taken:
            name, number = f"{place.dataset.name}-{number}", number + 1
        found.append(replace(place, dataset=place.dataset.model_copy(update={"name": name})))
    return found


def _registered(module: ModuleType, home: Home) -> DatasetFolder:
    dataset: Dataset = module.DATASET
    return DatasetFolder(dataset, make_whole(home.datasets / dataset.name, module.fetch))


def for_domain(domain: str) -> list[str]:
    """Registered data sets of a domain: the choice when the user named none."""
    return [name for name, module in entries(HERE, "DATASET").items() if module.DATASET.domain == domain]
