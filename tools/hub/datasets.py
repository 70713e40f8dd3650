"""Raw data sets: one file an entry, training rows of benchmarks, folders and files of the user, hub ids, LLaMA-Factory's names.

An entry has `DATASET` and either `fetch(folder)`, which makes it, or a source on the hub in its card and perhaps
`tidy(folder)`, which mends what was fetched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import yaml

from tuneloop.core.catalog import Benchmark, Dataset, Source
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import absolute_path, digest, digest_file, write_lines
from tuneloop.core.layout import Home
from tuneloop.core.setting_values import is_storage_url
from tuneloop.core.settings import Settings
from tuneloop.tools import datasets
from tuneloop.tools.hub.fetch import Progress, fetch_objects, fetch_repository, is_hub_id
from tuneloop.tools.hub.object_storage import check_storage
from tuneloop.tools.hub.store import make_complete
from tuneloop.tools.raw_data.client import shared_reader
from tuneloop.tools.raw_data.files import record_files
from tuneloop.tools.registry import registry_entries, unknown_entry

HERE = datasets
TRAINING_ROWS = "-train"  # a benchmark's name with it: the training rows that its own source has


@dataclass(frozen=True)
class DatasetFolder:
    """A data set that is there: card and place (a folder, or one file)."""

    dataset: Dataset
    root: Path


@dataclass(frozen=True)
class LlamaFactoryNames:
    """`files`: name → file in the folder `data` of its checkout; `refused`: name → why, and what is right instead."""

    files: dict[str, str]
    refused: dict[str, str]


def dataset_cards() -> dict[str, Dataset]:
    """Cards of all registered data sets, by name."""
    own = {name: module.DATASET for name, module in registry_entries(HERE, "DATASET").items()}
    return dict(sorted({**training_row_cards(), **own}.items()))


def registered_datasets() -> list[str]:
    """Registered data sets."""
    return list(dataset_cards())


def is_registered(name: str) -> bool:
    """Whether it is a registered data set; paths and hub ids have a slash, no registered name has."""
    return "/" not in name and name in registered_datasets()


def dataset_card(name: str) -> Dataset:
    """Card of a registered data set."""
    return dataset_cards()[name]


def check_dataset(name: str) -> None:
    """Refuse what can be seen to be wrong before anything is fetched. Raises InvalidRequestError."""
    from tuneloop.tools.benchmark_items import reasoning_gym

    path = Path(name).expanduser()
    if name.startswith(reasoning_gym.PREFIX):
        reasoning_gym.declare_training_pool(name)
        return
    if is_registered(name):
        return
    if path.exists():
        _check_records(path)
    elif name.startswith((".", "/", "~")):
        raise InvalidRequestError(f"dataset {path}: no such file or folder")
    elif is_storage_url(name):
        check_storage(name)
    elif not is_hub_id(hub_id(name)):
        if why := refusal(name):
            raise InvalidRequestError(f"dataset {name!r} {why}")
        known = [*registered_datasets(), *llamafactory_names()]
        raise unknown_entry("dataset", name, known, "or a folder, a file, a hub id org/name, or s3://bucket/path")


@cache
def llamafactory_names() -> dict[str, str]:
    """LLaMA-Factory's names of text data sets, and the hub id of each."""
    found: dict[str, str] = yaml.safe_load(Path(__file__).with_name("llamafactory_names.yaml").read_text())
    return found


@cache
def other_names() -> LlamaFactoryNames:
    """LLaMA-Factory's names that lead to no text data set of the hub."""
    text = Path(__file__).with_name("llamafactory_others.yaml").read_text()
    return LlamaFactoryNames(**yaml.safe_load(text))


def checkout_file(name: str, settings: Settings) -> str:
    """The file that one of LLaMA-Factory's own names stands for, in the checkout that the user names; else the name."""
    file = other_names().files.get(name)
    path = Path(settings.llama_factory_path or "") / "data" / (file or "")
    return str(absolute_path(str(path))) if file and settings.llama_factory_path and path.is_file() else name


def refusal(name: str) -> str:
    """Why one of LLaMA-Factory's names cannot be had here, and what is right; "" for any other name."""
    known = other_names()
    if file := known.files.get(name):
        return (
            f"is a file of LLaMA-Factory's checkout, which its package does not ship; right is the path of its data/{file}, "
            "or LLAMA_FACTORY_PATH=CHECKOUT"
        )
    return known.refused.get(name, "")


def hub_id(name: str) -> str:
    """The hub id that a name of LLaMA-Factory's stands for; any other name as it is."""
    return llamafactory_names().get(name, name)


def _check_records(path: Path) -> None:
    """At least one file must hold a record. Raises InvalidRequestError with the first file's own failure."""
    troubles = []
    for file in record_files(path):
        try:
            next(shared_reader().records(path, file, 1))
        except InvalidRequestError as e:
            troubles.append(e)
        else:
            return
    if troubles:
        raise troubles[0]
    raise InvalidRequestError(
        f"dataset {path}: no JSON, JSONL, CSV, TSV, Parquet, Arrow or text file with records in it"
    )


def resolve_dataset(name: str, home: Home, settings: Settings, progress: Progress | None = None) -> DatasetFolder:
    """The data set, fetched when it is not there. Raises InvalidRequestError as `check_dataset` does, InfrastructureError."""
    from tuneloop.tools.benchmark_items import reasoning_gym, reasoning_gym_items

    name = checkout_file(name, settings)
    check_dataset(name)
    if name.startswith(reasoning_gym.PREFIX):
        root = reasoning_gym_items.make_training_pool(name, home, settings)
        return DatasetFolder(reasoning_gym.declare_training_pool(name), root)
    if is_registered(name):
        return DatasetFolder(dataset_card(name), _registered(name, home, settings, progress))
    path = absolute_path(name)
    if path.exists():
        return DatasetFolder(Dataset(name=path.stem, description=f"files of {path.name}"), path)
    if is_storage_url(name):
        title, root = fetch_objects(name, "dataset", home.datasets, progress)
        return DatasetFolder(Dataset(name=Path(title).stem, description=f"files of {name}"), root)
    repository = hub_id(name)
    root = fetch_repository(repository, "dataset", home.datasets / repository, settings, progress=progress)
    title = name.replace("/", "--").replace("@", "-at-")
    return DatasetFolder(Dataset(name=title, description=f"hub data set {repository}"), root)


def resolve_datasets(
    names_: Sequence[str], home: Home, settings: Settings, progress: Progress | None = None
) -> list[DatasetFolder]:
    """Several data sets; two of one name (`a/data`, `b/data`) are told apart by a number."""
    found: list[DatasetFolder] = []
    for place in (resolve_dataset(name, home, settings, progress) for name in names_):
        taken = {d.dataset.name for d in found}
        name, number = place.dataset.name, 2
        while name in taken:
            name, number = f"{place.dataset.name}-{number}", number + 1
        found.append(replace(place, dataset=place.dataset.model_copy(update={"name": name})))
    return found


def _registered(name: str, home: Home, settings: Settings, progress: Progress | None) -> Path:
    module = registry_entries(HERE, "DATASET").get(name)
    if module is None:
        return make_training_rows(name, home, settings)
    source: Source | None = module.DATASET.source
    if source is None:
        return make_complete(home.datasets / name, module.fetch)
    tidy = getattr(module, "tidy", None)
    made_by = digest(source.model_dump_json(), digest_file(Path(str(module.__file__))) if tidy else "")
    return fetch_repository(
        source.repo,
        "dataset",
        home.datasets / f"{name}-{made_by}",
        settings,
        files=source.files,
        without=source.without,
        revision=source.revision,
        progress=progress,
        tidy=tidy,
    )


@cache
def training_row_cards() -> dict[str, Dataset]:
    """A card for each benchmark whose source has training rows, by name."""
    from tuneloop.tools.benchmark_items import resolve  # imports every benchmark: not for a folder of the user's

    found = (
        training_row_card(resolve.load_entry(name)[0])
        for name in resolve.registered_names()
        if _has_training_rows(name)
    )
    return {dataset.name: dataset for dataset in found}


def training_row_card(benchmark: Benchmark) -> Dataset:
    """What can be said without having them."""
    assert benchmark.source
    source = benchmark.source.model_copy(update={"files": benchmark.source.train, "train": ()})
    first = benchmark.description.partition(". ")[0].rstrip(".")
    return Dataset(
        name=benchmark.name + TRAINING_ROWS,
        description=f"Training rows of {source.repo}, which {benchmark.name} is taken from, as JSON Lines. There: {first}.",
        domain=benchmark.domain,
        licence=benchmark.licence,
        source=source,
        teaches=(benchmark.name,),
        quality="In the benchmark's own kind of questions; the contamination guard looks for its items in them.",
    )


def make_training_rows(name: str, home: Home, settings: Settings) -> Path:
    """The folder with `rows.jsonl`. Raises InvalidRequestError or InfrastructureError."""
    from tuneloop.tools.benchmark_items import resolve
    from tuneloop.tools.benchmark_items.sources import train_rows

    benchmark, module = resolve.load_entry(name.removesuffix(TRAINING_ROWS))
    made_by = digest(digest_file(Path(str(module.__file__))), benchmark.model_dump_json())

    def fill(part: Path) -> None:
        write_lines(part / "rows.jsonl", train_rows(benchmark, module, home, settings))

    return make_complete(home.datasets / f"{name}-{made_by}", fill, benchmark=benchmark.name)


def _has_training_rows(name: str) -> bool:
    from tuneloop.tools.benchmark_items import resolve

    benchmark, module = resolve.load_entry(name)
    return bool(benchmark.source and benchmark.source.train and hasattr(module, "train"))
