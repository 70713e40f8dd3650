"""Which items may be shown; and several benchmarks in one run: none shows what another seals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from tuneloop.core.catalog import Item
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import write_lines
from tuneloop.core.layout import Home
from tuneloop.tools.benchmark_items.folder import HALVED_FROM, BenchmarkFolder, sealed_items, select_validation
from tuneloop.tools.benchmark_items.resolve import resolve_benchmark
from tuneloop.tools.contamination.splits import check_benchmarks_disjoint, divide_validation, make_guard


def asked(n: int) -> dict[str, str | int]:
    return {"prompt": f"Anna has {n} pears and eats {n % 7}. How many are left?", "answer": n}


def made(root: Path, name: str, validation: Iterable[int], test: Iterable[int]) -> BenchmarkFolder:
    place = root / name
    for split, numbers in (("validation", validation), ("test", test)):
        write_lines(place / f"{split}.jsonl", map(asked, numbers))
    (place / "benchmark.yaml").write_text(f"name: {name}\ndescription: d\nanswer: number\n")
    return resolve_benchmark(str(place), Home(root / "home"), None)


def test_a_validation_item_in_anothers_sealed_test_is_refused(tmp_path: Path) -> None:
    one, two = (
        made(tmp_path, "one", range(10, 40), range(50, 80)),
        made(tmp_path, "two", range(100, 130), range(30, 50)),
    )
    with pytest.raises(InvalidRequestError, match="benchmarks one and two: 10 validation items of the first"):
        check_benchmarks_disjoint([one, two])
    check_benchmarks_disjoint([one])


def test_the_same_split_twice_and_sets_of_their_own_are_right(tmp_path: Path) -> None:
    one = made(tmp_path, "one", range(10, 40), range(50, 80))
    again = replace(one, benchmark=one.benchmark.model_copy(update={"name": "again"}))
    check_benchmarks_disjoint([one, again, made(tmp_path, "two", range(100, 130), range(140, 160))])


def test_items_of_the_unseen_half_are_known_as_such(tmp_path: Path) -> None:
    folder = made(tmp_path, "one", range(1000, 1300), range(50, 80))
    found = select_validation(folder)
    guard = make_guard((folder,), None)
    for items, split in ((found.shown, "validation"), (found.unseen, "unseen"), (sealed_items(folder), "test")):
        assert {guard.overlaps(item.fields["prompt"].upper()) for item in items} == {split}
    assert make_guard((folder,), None) is guard


def ids(items: Iterable[Item]) -> set[str]:
    return {item.id for item in items}


@pytest.mark.parametrize("limit", [HALVED_FROM - 1, HALVED_FROM, 200, 300, None])
def test_every_item_is_shown_or_sealed_whatever_the_limit(tmp_path: Path, limit: int | None) -> None:
    folder = made(tmp_path, "one", range(1000, 1300), range(50, 80))
    known, measured, whole = (
        divide_validation(folder, limit),
        select_validation(folder, limit),
        select_validation(folder),
    )
    assert ids(known.every) == ids(whole.every)
    assert not ids(known.shown) & ids(known.unseen)
    assert ids(measured.shown) <= ids(known.shown)
    assert ids(measured.unseen) <= ids(known.unseen) <= ids(whole.unseen)
    few = limit is not None and limit < HALVED_FROM
    assert (ids(known.unseen) == ids(whole.unseen)) is not few, "a run with few items shows those that it measures"


def test_two_benchmarks_that_show_what_the_other_hides_are_refused(tmp_path: Path) -> None:
    one = made(tmp_path, "one", range(1000, 1300), range(50, 80))
    numbers = sorted(int(item.fields["prompt"].split()[2]) for item in select_validation(one).unseen)[:20]
    place = tmp_path / "two"
    write_lines(place / "validation.jsonl", [asked(n) for n in (*numbers, *range(3000, 3050))])
    write_lines(place / "test.jsonl", [asked(n) for n in range(3200, 3220)])
    (place / "benchmark.yaml").write_text("name: two\ndescription: d\nanswer: number\n")
    two = resolve_benchmark(str(place), Home(tmp_path / "home"), None)
    with pytest.raises(
        InvalidRequestError, match="20 validation items of the first are in the validation half that is not shown"
    ):
        check_benchmarks_disjoint([one, two])


def test_both_halves_are_looked_for_in_the_sealed_test_of_another(tmp_path: Path) -> None:
    one = made(tmp_path, "one", range(1000, 1300), range(50, 80))
    found = select_validation(one)
    numbers = [int(item.fields["prompt"].split()[2]) for item in (*found.shown[:5], *found.unseen[:6])]
    two = made(tmp_path, "two", range(3000, 3030), numbers)
    with pytest.raises(
        InvalidRequestError, match="benchmarks one and two: 11 validation items of the first are in the sealed test"
    ):
        check_benchmarks_disjoint([one, two])
