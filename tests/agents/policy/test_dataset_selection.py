"""Which data sets are chosen when the user names none."""

from __future__ import annotations

import pytest

from tuneloop.agents.policy.dataset_selection import MOST, select_datasets
from tuneloop.core.catalog import Benchmark, Dataset
from tuneloop.tools.benchmark_items import resolve
from tuneloop.tools.hub import datasets

WORDS = "Word problems in English with steps of addition."


def benchmark(name: str, domain: str, description: str = WORDS) -> Benchmark:
    return Benchmark(name=name, domain=domain, description=description)


@pytest.mark.parametrize(
    ("name", "domain", "chosen"),
    [
        ("wordproblems", "math", "wordproblems"),
        ("aime25", "math", "deepscaler"),
        ("panorama_pi4pc_cot", "patent", "panorama"),
        ("chemcotbench_mol_edit", "chemistry", "chemcot"),
        ("tablebench_fact_checking", "tables", "tableinstruct"),
        ("bioprobench_ord", "biology", "bioprobench"),
    ],
)
def test_a_benchmark_gets_what_is_made_for_it(name: str, domain: str, chosen: str) -> None:
    selection = select_datasets(benchmark(name, domain), datasets.dataset_cards().values())
    assert selection.datasets[0] == chosen
    assert chosen in selection.reason
    assert selection.rated[0].name == chosen


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("gsm8k", "gsm8k-train"),
        ("mmlu", "mmlu-train"),
        ("math500", "math-train"),
        ("panorama_noc4pc", "panorama"),
        ("bioprobench_gen", "bioprobench"),
        ("chemcotbench_reaction", "chemcot"),
        ("tablebench_visualization", "tableinstruct"),
        ("aime24", "deepscaler"),
    ],
)
def test_the_catalogs_benchmarks_and_data_sets_fit_together(name: str, chosen: str) -> None:
    assert select_datasets(resolve.load_entry(name)[0], datasets.dataset_cards().values()).datasets[0] == chosen


def card(name: str, domain: str = "math", description: str = "Rows.", teaches: tuple[str, ...] = ()) -> Dataset:
    return Dataset(name=name, domain=domain, description=description, teaches=teaches)


def test_several_that_are_nearly_as_good_and_never_many() -> None:
    cards = [card(f"d{n}") for n in range(6)] + [card("other", "law")]
    assert select_datasets(benchmark("x", "math"), cards).datasets == ("d0", "d1", "d2")
    assert MOST == 3


def test_what_is_made_for_it_leaves_out_what_only_shares_the_domain() -> None:
    cards = [card("plain"), card("made", teaches=("x",)), card("more", teaches=("x_family",))]
    assert select_datasets(benchmark("x_family_7", "math"), cards).datasets == ("made", "more")


def test_the_benchmarks_own_rows_come_alone() -> None:
    cards = [card("x-train"), card("made", teaches=("x",)), card("plain")]
    assert select_datasets(benchmark("x", "math"), cards).datasets == ("x-train",)


def test_words_in_common_decide_within_a_domain() -> None:
    cards = [
        card("a", description="Geometry of triangles."),
        card("b", description="Word problems with steps of addition."),
    ]
    assert select_datasets(benchmark("x", "math"), cards).datasets[0] == "b"
    assert "problems" in select_datasets(benchmark("x", "math"), cards).reason


def test_nothing_fits_another_domain() -> None:
    selection = select_datasets(benchmark("x", "music"), [card("a"), card("b", "law")])
    assert selection.datasets == ()
    assert len(selection.rated) == 2


def test_the_same_cards_in_another_order_give_the_same_choice() -> None:
    cards = list(datasets.dataset_cards().values())
    chosen = select_datasets(benchmark("x", "math"), cards)
    assert select_datasets(benchmark("x", "math"), reversed(cards)) == chosen
