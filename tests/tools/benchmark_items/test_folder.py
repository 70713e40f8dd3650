"""The two halves of validation on disk: stable, apart, whole clusters; a smaller limit is the beginning of a larger one."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tuneloop.core.catalog import Item
from tuneloop.core.errors import DamagedFileError, InvalidRequestError
from tuneloop.core.files import digest_file, read_json, read_lines, write_json
from tuneloop.core.layout import Home
from tuneloop.tools.benchmark_items.folder import (
    HALVED_FROM,
    TEST,
    UNSEEN,
    VALIDATION,
    BenchmarkFolder,
    open_folder,
    read_items,
    sealed_items,
    select_validation,
)
from tuneloop.tools.benchmark_items.resolve import item_counts, resolve_benchmark

YAML = "name: capitals\ndescription: Name the capital.\nanswer: exact\nprompt: '{question}'\n"
Row = dict[str, Any]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def rows(count: int, of: int = 0) -> list[Row]:
    """Questions with different numbers; with `of` each cluster has so many."""
    cluster = [{"cluster": f"map {i // of}"} if of else {} for i in range(count)]
    return [
        {"question": f"Capital of country {i} with {i * 7919 % 1009} towns?", "answer": f"City {i}", **more}
        for i, more in enumerate(cluster)
    ]


def made(home: Home, task: Path, validation: list[Row]) -> BenchmarkFolder:
    task.mkdir(parents=True)
    (task / "benchmark.yaml").write_text(YAML)
    test = [{"question": f"What is asked in test {i}?", "answer": f"City {i}"} for i in range(5)]
    for split, some in (("validation", validation), ("test", test)):
        (task / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in some))
    return resolve_benchmark(str(task), home)


def asked(items: tuple[Item, ...]) -> set[str]:
    return {item.fields["question"] for item in items}


def test_the_halves_share_nothing_and_are_all_there_is(home: Home, tmp_path: Path) -> None:
    folder = made(home, tmp_path / "own", rows(300))
    found = select_validation(folder)
    assert {i.id for i in found.shown} == {i.id for i in read_items(folder.root / VALIDATION)}
    assert {i.id for i in found.unseen} == {i.id for i in read_items(folder.root / UNSEEN)}
    assert sorted(i.id for i in found.every) == sorted(f"validation-{n}" for n in range(300)), "ids are as before"
    assert 110 <= len(found.unseen) <= 190
    assert item_counts(folder.root) == {"validation": 300, "test": 5}


def test_they_follow_from_contents_alone(home: Home, tmp_path: Path) -> None:
    one = select_validation(made(home, tmp_path / "one", rows(300)))
    other = select_validation(made(home, tmp_path / "other", rows(420)[::-1]))
    assert asked(one.unseen) == asked(other.unseen) & asked(one.every), "order, ids and further items say nothing"
    assert [list(asked((i,))) for i in one.shown] == [
        list(asked((i,))) for i in other.shown if asked((i,)) <= asked(one.every)
    ]


@pytest.mark.parametrize("of", [0, 3], ids=["single", "clusters"])
def test_a_smaller_limit_is_the_beginning_of_a_larger_one(home: Home, tmp_path: Path, of: int) -> None:
    folder = made(home, tmp_path / "own", rows(900, of))
    found = [select_validation(folder, limit) for limit in (300, 301, 500, 900, 5000, None)]
    for small, large in itertools.pairwise(found):
        assert small.shown == large.shown[: len(small.shown)]
        assert small.unseen == large.unseen[: len(small.unseen)]
    assert [len(one.every) for one in found] == [300, 300 if of else 301, 498 if of else 500, 900, 900, 900]
    for one in found:
        assert not {i.cluster for i in one.shown} & {i.cluster for i in one.unseen} - {""}


def test_halves_are_independent_of_the_order(home: Home, tmp_path: Path) -> None:
    folder = made(home, tmp_path / "own", rows(2000))
    shares = [len(select_validation(folder, limit).unseen) / limit for limit in (200, 500, 1000, 2000)]
    assert all(0.4 <= share <= 0.6 for share in shares), shares


def test_with_fewer_than_a_hundred_clusters_all_are_shown(home: Home, tmp_path: Path) -> None:
    few = made(home, tmp_path / "few", rows(HALVED_FROM - 1))
    clusters = made(home, tmp_path / "clusters", rows(400, of=5))
    for folder, count in ((few, HALVED_FROM - 1), (clusters, 400)):
        assert (folder.root / UNSEEN).read_bytes() == b""
        assert (len(select_validation(folder).shown), select_validation(folder).unseen) == (count, ())
    enough = made(home, tmp_path / "enough", rows(HALVED_FROM))
    assert select_validation(enough).unseen
    assert select_validation(enough, HALVED_FROM - 1).unseen == (), "of few that are measured all are shown"


def test_at_least_one_cluster_is_measured(home: Home, tmp_path: Path) -> None:
    assert len(select_validation(made(home, tmp_path / "own", rows(400, of=4)), 1).every) == 4


def test_the_fingerprint_covers_both_halves(home: Home, tmp_path: Path) -> None:
    folder = made(home, tmp_path / "own", rows(300))
    manifest = read_json(folder.root / "manifest.json")
    assert set(manifest["files"]) >= {VALIDATION, UNSEEN, TEST}
    for name in (VALIDATION, UNSEEN, TEST):
        copy = tmp_path / "copy"
        shutil.copytree(folder.root, copy)
        (copy / name).write_bytes((copy / name).read_bytes()[:-2] + b" }\n")
        with pytest.raises(InvalidRequestError, match=r"changed since it was made; remove .*copy"):
            (sealed_items if name == TEST else select_validation)(
                BenchmarkFolder(folder.benchmark, copy, folder.fingerprint)
            )
        write_json(copy / "manifest.json", {"files": {**manifest["files"], name: digest_file(copy / name)}})
        assert open_folder(folder.benchmark, copy).fingerprint != folder.fingerprint
        shutil.rmtree(copy)


def test_a_folder_of_an_older_version_is_refused_in_one_line(home: Home, tmp_path: Path) -> None:
    folder = made(home, tmp_path / "own", rows(300))
    manifest = read_json(folder.root / "manifest.json")
    del manifest["files"][UNSEEN]
    write_json(folder.root / "manifest.json", manifest)
    (folder.root / UNSEEN).unlink()
    assert item_counts(folder.root) is None
    with pytest.raises(InvalidRequestError) as refused:
        resolve_benchmark(str(tmp_path / "own"), home)
    assert f"{folder.root}: an older version made it" in str(refused.value) and "\n" not in str(refused.value)
    shutil.rmtree(folder.root)
    assert resolve_benchmark(str(tmp_path / "own"), home) == folder


def test_a_line_stays_as_the_entry_wrote_it(home: Home) -> None:
    folder = resolve_benchmark("wordproblems", home)
    for name in (VALIDATION, UNSEEN):
        assert all(list(row) == ["id", "prompt", "answer"] for row in read_lines(folder.root / name))


@pytest.mark.parametrize("gone", [VALIDATION, TEST])
def test_a_manifest_without_a_split_is_named(home: Home, tmp_path: Path, gone: str) -> None:
    folder = made(home, tmp_path / "capitals", rows(40))
    told = read_json(folder.root / "manifest.json")
    write_json(folder.root / "manifest.json", {**told, "files": {k: v for k, v in told["files"].items() if k != gone}})
    with pytest.raises(DamagedFileError, match=rf"manifest\.json is damaged \({gone} is missing"):
        open_folder(folder.benchmark, folder.root)


@pytest.mark.parametrize("line", ["[]", "7", '"id answer"', '{"id": "1"}', '{"id": [1], "answer": "a"}', "{"])
def test_a_damaged_item_is_named_with_its_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "items.jsonl").write_text('{"id": "1", "answer": "a"}\n' + line + "\n")
    with pytest.raises(DamagedFileError, match=r"items\.jsonl:2 is damaged"):
        read_items(tmp_path / "items.jsonl")
