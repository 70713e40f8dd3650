"""Splits by content: clusters and copies whole, groups on both sides, nothing moves when items are added."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tuneloop.core.catalog import Benchmark, Item
from tuneloop.tools.benchmark_items.folder import HALVED_FROM, order_clusters
from tuneloop.tools.benchmark_items.splitting import split, unit_rank, unseen_half

BENCHMARK = Benchmark(name="b", description="d")
WIDE = BENCHMARK.model_copy(update={"validation_size": 10_000, "test_size": 10_000})


def item(number: int, group: str = "", cluster: str = "", text: str = "") -> Item:
    asked = text or f"What is {number} and {number * 7919 % 1009}?"
    return Item(id=str(number), fields={"prompt": asked}, answer=str(number), group=group, cluster=cluster)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["", *"uvwxyz"])), min_size=2, max_size=80))
@settings(deadline=None)
def test_sides_share_no_cluster_and_lose_no_item(drawn: list[tuple[str, str]]) -> None:
    pool = [item(i, group, cluster) for i, (group, cluster) in enumerate(drawn)]
    validation, test = split(WIDE, pool)
    assert sorted((*validation, *test), key=lambda i: int(i.id)) == pool
    assert not {i.cluster for i in validation} & {i.cluster for i in test} - {""}
    assert split(WIDE, reversed(pool))[0] == validation[::-1]


@given(st.integers(20, 200), st.integers(1, 50))
@settings(deadline=None)
def test_added_items_move_no_others(n: int, more: int) -> None:
    pool = [item(i) for i in range(n + more)]
    before, after = split(WIDE, pool[:n])[0], split(WIDE, pool)[0]
    assert before == [i for i in after if int(i.id) < n]


def test_growing_cluster_keeps_its_side_in_every_benchmark() -> None:
    pool = [item(i, cluster=f"c{i % 30}") for i in range(60)]
    grown = [*pool, *(item(i, cluster=f"c{i % 30}") for i in range(60, 180))]
    others = [item(i, cluster=f"c{i % 30}") for i in range(180, 240)]
    first, *rest = ({i.cluster for i in split(WIDE, some)[0]} for some in (pool, grown, others))
    assert 0 < len(first) < 30
    assert rest == [first, first]


def test_the_same_question_in_another_dress_stays_on_its_side() -> None:
    pool = [item(i, text=f"Find {i // 2} + {i}.") for i in range(40)]
    copies = [item(100 + i, text=f"  FIND {i // 2} +  {i} ") for i in range(40)]
    validation, test = split(WIDE, [*pool, *copies])
    sides = {i.id: side for side, items in enumerate((validation, test)) for i in items}
    assert all(sides[str(i)] == sides[str(100 + i)] for i in range(40))
    assert {0, 1} == set(sides.values())


def test_every_group_has_its_share_of_both_sides() -> None:
    pool = [item(i, group="large" if i % 10 else "small") for i in range(1000)]
    few = BENCHMARK.model_copy(update={"validation_size": 100, "test_size": 100})
    for side in split(few, pool):
        groups = [i.group for i in side]
        assert 95 <= len(side) <= 105
        assert 7 <= groups.count("small") <= 13


def test_a_pool_with_an_item_twice_has_it_once() -> None:
    validation, test = split(WIDE, [item(1), item(2), item(1).model_copy(update={"id": "again"})])
    assert len(validation) + len(test) == 2


def test_large_clusters_go_to_both_sides_alike() -> None:
    validation, test = split(WIDE, [item(i, cluster=f"c{i // 6}") for i in range(1200)])
    assert 400 <= len(validation) <= 800 and len(validation) + len(test) == 1200


def test_a_larger_validation_side_leaves_the_test_side_as_it_is() -> None:
    pool = [item(i, group="ab"[i % 2], cluster=f"c{i // 3}" if i % 5 else "") for i in range(6000)]
    sizes = [BENCHMARK.model_copy(update={"validation_size": size}) for size in (300, 2000)]
    (few, test), (many, same) = (split(one, pool) for one in sizes)
    assert test == same
    assert {i.id for i in few} < {i.id for i in many}
    assert BENCHMARK.validation_size == 2000


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 400)), min_size=1, max_size=500))
@settings(deadline=None, max_examples=30)
def test_no_half_takes_a_part_of_a_cluster(drawn: list[tuple[str, int]]) -> None:
    pool = [item(i, group, f"c{number}" if number < 300 else "") for i, (group, number) in enumerate(drawn)]
    unseen = unseen_half(pool)
    ids = {i.id for i in unseen}
    shown = [i for i in pool if i.id not in ids]
    assert len(ids) == len(unseen)
    assert not {i.cluster for i in unseen} & {i.cluster for i in shown} - {""}
    assert (bool(unseen) and bool(shown)) == (len(order_clusters(pool)) >= HALVED_FROM)
    assert {i.id for i in unseen_half(pool[::-1])} == ids


def test_near_copies_are_in_one_half() -> None:
    pool = [item(i, text=f"Find {i // 2} + {i}.") for i in range(200)]
    copies = [item(1000 + i, text=f"  FIND {i // 2} +  {i} ") for i in range(200)]
    unseen = {i.id for i in unseen_half([*pool, *copies])}
    assert 100 <= len(unseen) <= 300
    assert all((str(i) in unseen) == (str(1000 + i) in unseen) for i in range(200))


def test_copies_of_one_text_are_all_shown() -> None:
    assert unseen_half([item(i, text=f"{' ' * i}Find 3 + 4.") for i in range(150)]) == []


def test_the_half_says_nothing_of_the_rank() -> None:
    pool = sorted(([item(i)] for i in range(2000)), key=unit_rank)
    ids = {i.id for i in unseen_half([i for [i] in pool])}
    assert all(400 <= 2 * sum(i.id in ids for [i] in part) <= 600 for part in (pool[:500], pool[500:1000], pool[1500:]))
