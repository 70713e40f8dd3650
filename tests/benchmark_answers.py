"""Benchmarks made of the made-up repositories, and made-up answerers through the real engine, all in one job."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.stand_in_engine import collect_scores
from tuneloop.core.catalog import Item
from tuneloop.core.score import Score
from tuneloop.tools.benchmark_items import resolve
from tuneloop.tools.benchmark_items.sources import splits_of
from tuneloop.tools.engines import Engine
from tuneloop.tools.evaluation.item_sets import ItemSet, ModelWeights, Pair, evaluation_command, repeat_samples

REPOS = Path(__file__).parent / "hub" / "repos"
Answerer = Callable[[ItemSet, Item], str]


def repository(repo: str, folder: Path, kind: str = "datasets") -> Path:
    """The files of a made-up repository below `folder`, as the hub has them."""
    root = folder / repo
    for name, data in made_up(repo, kind).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


def made_up(repo: str, kind: str = "datasets") -> dict[str, bytes]:
    """The files of a made-up repository."""
    path = REPOS / kind / f"{repo}.py"
    spec = importlib.util.spec_from_file_location(f"made_up_{repo.replace('/', '_').replace('-', '_')}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[str, bytes] = module.files()
    return found


def splits(name: str, folder: Path) -> tuple[list[Item], list[Item]]:
    """Validation and test items of a benchmark of the catalog, from its made-up source."""
    benchmark, module = resolve.load_entry(name)
    assert benchmark.source
    roots = [repository(source.repo, folder) for source in (benchmark.source, *benchmark.more)]
    return splits_of(benchmark, module, *roots)


def item_set(name: str, folder: Path) -> ItemSet:
    """All items of a benchmark of the catalog, as often as each is asked."""
    benchmark = resolve.load_entry(name)[0]
    found = repeat_samples(benchmark.samples, [item for side in splits(name, folder) for item in side])
    return ItemSet(name, benchmark, "validation", tuple(found))


def written(folder: Path, name: str, sets: Sequence[ItemSet], answer: Answerer) -> Path:
    """An answerer's replies as a file."""
    rows = [{"set": s.name, "id": i.id, "prediction": answer(s, i)} for s in sets for i in s.items]
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / f"{name}.jsonl"


def measured(
    engine: Engine, folder: Path, sets: Sequence[ItemSet], answerers: Mapping[str, Answerer]
) -> dict[Pair, Score]:
    """Scores of every answerer on every set: one job of the real engine, every verdict checked."""
    models = [
        ModelWeights(name, written(folder, name, sets, answer), replies=True) for name, answer in answerers.items()
    ]
    command = evaluation_command(engine, models, sets, folder / "out")
    done = subprocess.run(
        command.argv, env=command.env, cwd=command.cwd, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return collect_scores(folder / "out", sets)
