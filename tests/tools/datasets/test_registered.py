"""The registered data sets that come from the hub: what is fetched, what is mended, and what is never taken."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.hub.making import json_list, parquet, table
from tests.hub.server import LocalHub
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import read_json, read_lines
from tuneloop.core.settings import Settings
from tuneloop.tools.benchmark_items import resolve
from tuneloop.tools.benchmark_items.raw_rows import read_csv as read_table
from tuneloop.tools.benchmark_items.sources import raw_files
from tuneloop.tools.datasets import chemcot
from tuneloop.tools.hub import datasets
from tuneloop.tools.hub.store import MANIFEST
from tuneloop.tools.raw_data.files import iter_records, record_files

ROWS = [{"id": n, "question": f"q{n}", "answer": "A"} for n in range(4)]
SETS = ("bioprobench", "chemcot", "deepscaler", "financeiq", "panorama", "tableinstruct")


@pytest.fixture
def settings(tmp_path: Path, hub: LocalHub) -> Settings:
    """HF_ENDPOINT is in the environment."""
    return Settings(FT_FILE_PATH=tmp_path / "home")


def get(name: str, settings: Settings) -> Path:
    return datasets.resolve_dataset(name, settings.home, settings).root


def names(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()} - {MANIFEST}


@pytest.mark.parametrize("name", SETS)
def test_a_card_says_what_is_held_and_under_which_licence(name: str) -> None:
    card = datasets.dataset_card(name)
    assert card.source
    assert card.source.repo
    assert card.domain != "general"
    assert card.licence != "unknown"
    assert card.quality
    assert card.gaps
    assert card.teaches
    assert card.reasoning != "unknown"
    assert sum(card.parts.values()) in (0, card.rows)


@pytest.mark.parametrize("name", SETS)
def test_it_comes_from_its_repository_with_records_that_can_be_read(name: str, settings: Settings) -> None:
    root = get(name, settings)
    assert root.parent == settings.home.datasets
    files = record_files(root)
    assert files
    assert all(any(iter_records(file)) for file in files)
    assert all(n.startswith("data/test/") for n in names(root) if "test" in n.lower()), (
        "FinanceIQ's folder has that name"
    )
    assert read_json(root / MANIFEST)["source"] == getattr(datasets.dataset_card(name).source, "repo", None)


def test_only_what_was_asked_for_is_fetched(settings: Settings, hub: LocalHub) -> None:
    get("deepscaler", settings)
    assert {p.name.partition("-")[0] for p in settings.home.datasets.iterdir() if p.is_dir()} == {"deepscaler"}
    assert not [a for a in hub.asked if "DeepScaleR" not in a.path]


def test_panorama_leaves_validation_and_test_where_they_are(settings: Settings, hub: LocalHub) -> None:
    splits = ("train", "validation", "test")
    forms = {f"{task}/{split}.parquet": parquet(ROWS) for task in ("PAR4PC", "PI4PC", "NOC4PC") for split in splits}
    sharded = {f"data/PAR4PC/{split}-00000-of-00002.parquet": parquet(ROWS) for split in splits}
    hub.put("datasets", "LG-AI-Research/PANORAMA", {**forms, **sharded, "README.md": b"# Made up"})
    assert names(get("panorama", settings)) == {
        *("README.md", "PAR4PC/train.parquet", "PI4PC/train.parquet", "NOC4PC/train.parquet"),
        "data/PAR4PC/train-00000-of-00002.parquet",
    }
    assert not hub.count("resolve.*(test|validation)")


def test_bioprobench_leaves_the_test_files_where_they_are(settings: Settings, hub: LocalHub) -> None:
    tasks = ("PQA", "ORD", "ERR", "GEN")
    files = {f"{task}{part}.json": json_list(ROWS) for task in tasks for part in ("", "_test")}
    hub.put("datasets", "bowenxian/BioProBench", files)
    assert names(get("bioprobench", settings)) == {f"{task}.json" for task in tasks}
    assert not hub.count("resolve.*test")


def test_financeiq_holds_no_question_that_the_benchmark_asks(settings: Settings, hub: LocalHub) -> None:
    benchmark, module = resolve.load_entry("FinanceIQ_gen")
    root = get("financeiq", settings)
    learned = [row for file in record_files(root) for row in iter_records(file)]
    measured = list(module.pool(benchmark, raw_files(benchmark, settings.home, settings)))
    assert learned
    assert not {row["Question"] for row in learned} & {item.fields["question"] for item in measured}
    repository = hub.find("datasets", "Duxiaoman-DI/FinanceIQ")
    assert repository
    files = repository.commits[repository.main].items()
    total = sum(len(read_table(blob.data)) for path, blob in files if path.startswith("data/test/"))
    assert len(learned) + len(measured) == total
    assert {file.name for file in record_files(root)} == {
        p.rpartition("/")[2] for p, _ in files if p.startswith("data/test/")
    }


def test_chemcot_is_mended_where_it_is_damaged_and_nowhere_else(settings: Settings, hub: LocalHub) -> None:
    root = get("chemcot", settings)
    fields = {"id", "query", "task", "subtask", "struct_cot", "raw_cot", "meta"}
    rows = read_json(root / "chemcotbench-cot" / "rxn" / "rcr.json")
    assert all(set(row) == fields for file in record_files(root) for row in iter_records(file))
    for row in rows:
        assert json.loads(row["struct_cot"])["output"]
        assert json.loads(row["meta"]) == {"from": "made up", "gt": {"reagents": ["CCO", "[Na+]"]}}
    repository = hub.find("datasets", "OpenMol/ChemCoTDataset")
    assert repository
    stored = repository.commits[repository.main]
    same = [n for n in names(root) if (root / n).read_bytes() == stored[n].data]
    assert set(stored) - set(same) == {"chemcotbench-cot/rxn/rcr.json"}
    kept = read_json(root / "chemcotbench-cot" / "mol_und" / "fg_count.json")[0]
    assert chemcot.mended(kept) == kept


def test_what_mends_it_runs_again_when_it_was_killed(
    settings: Settings, hub: LocalHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(folder: Path) -> None:
        (folder / "README.md").write_text("half")
        raise KeyboardInterrupt

    module = chemcot
    with monkeypatch.context() as patched:
        patched.setattr(module, "tidy", killed)
        with pytest.raises(KeyboardInterrupt):
            get("chemcot", settings)
    assert not [p for p in settings.home.datasets.iterdir() if (p / MANIFEST).exists()]
    root = get("chemcot", settings)
    assert (root / "README.md").read_text() != "half"
    assert all("gt" not in row for row in read_json(root / "chemcotbench-cot" / "rxn" / "rcr.json"))


def test_any_hub_id_and_any_revision_of_it(settings: Settings, hub: LocalHub) -> None:
    first = hub.put("datasets", "some/set", {"a.csv": table([["q", "a"], ["1+1", "2"]])})
    hub.put("datasets", "some/set", {"a.csv": table([["q", "a"], ["1+2", "3"]])})
    found = datasets.resolve_datasets(["some/set", f"some/set@{first}"], settings.home, settings)
    assert [next(iter_records(d.root / "a.csv"))["a"] for d in found] == ["3", "2"]
    assert [d.dataset.name for d in found] == ["some--set", f"some--set-at-{first}"]


def test_a_gated_set_is_one_line(settings: Settings, hub: LocalHub) -> None:
    hub.close("datasets", "OpenMol/ChemCoTDataset", "gated")
    with pytest.raises(
        InvalidRequestError, match=r"accept its licence at http.*/datasets/OpenMol/ChemCoTDataset, then set HF_TOKEN"
    ):
        get("chemcot", settings)


def test_the_training_rows_of_a_benchmarks_source(settings: Settings, hub: LocalHub) -> None:
    own = [name for name in datasets.registered_datasets() if name.endswith("-train")]
    for name in own:
        benchmark, _ = resolve.load_entry(name.removesuffix("-train"))
        card = datasets.dataset_card(name)
        assert benchmark.source
        assert card.source
        assert (card.domain, card.source.files) == (benchmark.domain, benchmark.source.train)
    for name in own[:2]:
        root = get(name, settings)
        assert list(read_lines(root / "rows.jsonl"))
        assert names(root) == {"rows.jsonl"}
