"""Copies of items are found in any dress; word problems that only look alike are not."""

import json
import random
import tracemalloc
from collections.abc import Callable
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneloop.tools.contamination.guard import Guard, row_key
from tuneloop.tools.contamination.probes import KnownItem

SUFFIX = "\nEnd with \\boxed{answer}."
NAMES = ("Anna", "Tom", "Mia", "Paul", "Lena", "Omar", "Rosa", "Jack")
THINGS = ("apples", "books", "coins", "stones", "pencils", "stamps")


def story(rng: random.Random) -> str:
    name, thing = rng.choice(NAMES), rng.choice(THINGS)
    a, b, c = (rng.randint(2, 99) for _ in range(3))
    return (
        f"{name} has {a} {thing}. {name} buys {b} more {thing} at the market. Then {name} gives {c} {thing} to a friend. "
        f"How many {thing} does {name} have now?"
    )


def stories(seed: int, n: int) -> list[str]:
    rng = random.Random(seed)
    return list(dict.fromkeys(story(rng) for _ in range(n)))


def guard_of(**asked: list[str]) -> Guard:
    splits = {split: asked.get(split, []) for split in ("validation", "unseen", "test")}
    return Guard([KnownItem("b", s, f"{s}-{i}", {"prompt": q}) for s, qs in splits.items() for i, q in enumerate(qs)])  # type: ignore[arg-type]


VALIDATION, TEST = stories(1, 200), stories(2, 500)
GUARD = guard_of(validation=[q + SUFFIX for q in VALIDATION], test=[q + SUFFIX for q in TEST])

DRESSES = {
    "as it is": lambda q: q,
    "with the instruction": lambda q: q + SUFFIX,
    "with another instruction": lambda q: f"Solve this problem:\n{q}\nThink step by step.",
    "capitals": str.upper,
    "spaces": lambda q: "  ".join(q.split(" ")) + "\n",
    "no punctuation": lambda q: q.replace(".", "").replace("?", ""),
    "inside a chat": lambda q: f"Hello! {q} Thanks a lot.",
}


@pytest.mark.parametrize("dress", DRESSES)
def test_copies_are_found_in_any_dress(dress: str) -> None:
    for split, questions in (("validation", VALIDATION), ("test", TEST)):
        assert all(GUARD.overlaps(DRESSES[dress](q)) == split for q in questions[:40])


@settings(deadline=None)
@given(st.sampled_from(TEST), st.randoms())
def test_random_case_and_blanks_are_seen_through(question: str, rng: random.Random) -> None:
    text = "".join(rng.choice((c.upper(), c.lower())) for c in question).replace(" ", rng.choice(("  ", "\n", " \t")))
    assert GUARD.overlaps(text) == "test"


def test_problems_of_the_same_template_are_no_copies() -> None:
    known = set(VALIDATION) | set(TEST)
    fresh = [q for q in stories(3, 4000) if q not in known]
    assert len(fresh) > 3900
    assert sum(hit is not None for hit in GUARD.find(q + SUFFIX for q in fresh)) <= 0.001 * len(fresh)


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(TEST), st.integers(100, 999))
def test_another_number_makes_another_problem(question: str, number: int) -> None:
    first = next(word for word in question.split() if word.isdigit())
    assert GUARD.overlaps(question.replace(f" {first} ", f" {number} ", 1)) is None


def test_another_word_makes_another_problem_although_the_old_one_stands_elsewhere() -> None:
    asked = "The fragile glacier lies behind the reef and the town. It moved in 1706. Why did it matter to people of the glacier?"
    guard = guard_of(test=[asked])
    assert guard.overlaps(asked) == "test"
    assert guard.overlaps("of the orbit".join(asked.rsplit("of the glacier", 1))) is None


def test_another_number_in_an_example_of_a_function_makes_another_problem() -> None:
    asked = (
        'def umbra_reef(items, limit=533):\n    """Return the coastal vessel of items that are above limit.\n\n'
        '    >>> umbra_reef([27, 89])\n    97\n    """\n'
    )
    guard = guard_of(test=[asked])
    assert guard.overlaps(asked) == "test"
    for old, new in (("27", "30"), ("89", "92"), ("97", "100"), ("533", "536")):
        assert guard.overlaps(asked.replace(old, new)) is None


def test_numbers_in_another_order_make_another_problem() -> None:
    words = TEST[0].split()
    at = [i for i, word in enumerate(words) if word.isdigit()][:2]
    words[at[0]], words[at[1]] = words[at[1]], words[at[0]]
    assert GUARD.overlaps(" ".join(words)) is None


def test_the_common_instruction_alone_is_no_overlap() -> None:
    assert GUARD.overlaps(SUFFIX) is None
    assert GUARD.overlaps("Write 12 in a box." + SUFFIX) is None
    assert GUARD.overlaps("") is None


def test_the_common_instruction_counts_for_nothing_in_a_cut_item() -> None:
    asked = [
        f"{name} has {n} nuts. She gives {n % 7} to Lily. She buys 11 more. Lily gives her 2 more. "
        f"How many nuts does {name} have now?"
        for n, name in enumerate(("Sara", "Emma", "Ida", "Nora", "Vera", "Zoe", "Ada", "Eva", "Mona", "Lara"), 30)
    ]
    guard = guard_of(test=[question + SUFFIX for question in asked])
    other = "Sara has 30 nuts. She splits them into 2 equal parts and keeps one. She finds 10. How many nuts does Sara have now?"
    assert guard.overlaps(asked[0] + SUFFIX) == "test"
    assert guard.overlaps(other) is None
    assert guard.overlaps(other + SUFFIX) is None


def test_short_items_are_compared_whole() -> None:
    sums = [f"{a}+{b}=?" for a in range(10) for b in range(10)]
    guard = guard_of(test=[f"Compute: {s} Reply with a number." for s in sums])
    assert guard.overlaps("Compute: 3 + 4 = ? Reply with a number.") == "test"
    assert guard.overlaps("3+4=?") == "test"
    assert guard.overlaps("3*4=?") is None
    assert guard.overlaps("3-4=?") is None
    assert guard.overlaps("33+4=?") is None
    assert guard.overlaps("Tom knows that 3+4=? is easy and asks for 9+25") is None
    assert [hit is not None for hit in guard.find([{"a": "so", "b": "3+4"}, {"a": "so 3+4"}, ["7", "3 + 4 =?"]])] == [
        True,
        False,
        True,
    ]


def test_a_computed_step_is_not_an_item_that_begins_with_it() -> None:
    guard = guard_of(test=[f"{a}*4, minus 32" for a in range(11, 30)])
    assert guard.overlaps("11*4") is None
    assert guard.overlaps("First we compute 11*4=44. Then 44, minus 32 is 12.") is None
    assert guard.overlaps("11 × 4 minus 32") == "test"


@pytest.mark.parametrize(
    "hidden",
    [
        lambda q: {q: 1},
        lambda q: [[[[[[[{"a": {"b": [q]}}]]]]]]],
        lambda q: json.dumps({"x": json.dumps([json.dumps({"y": q})])}),
        lambda q: f"<{q}>",
        lambda q: f"{q.split('.')[0]}. {q}".replace("31", "13"),
        lambda q: "x" * 3_000_000 + q + "y" * 3_000_000,
    ],
    ids=["a name", "nested", "JSON in JSON", "a tag", "behind a twin", "millions of letters"],
)
def test_overlaps_are_found_at_any_place_and_length(hidden: Callable[[str], object]) -> None:
    rows = [hidden(q) for q in TEST[:3]]
    assert all(hit is not None and hit.split == "test" for hit in GUARD.find(rows))


def test_nesting_without_end_is_read() -> None:
    row: object = TEST[0]
    for _ in range(50_000):
        row = [row]
    assert next(GUARD.find([row])) is not None


def test_short_questions_of_facts() -> None:
    countries = ("France", "Spain", "Peru", "Kenya", "India", "Japan", "Chile", "Cuba", "Mali")
    guard = guard_of(validation=[f"What is the capital of {c}?" for c in countries])
    assert guard.overlaps("what is the capital of  JAPAN") == "validation"
    assert guard.overlaps("What is the capital of Italy?") is None


def test_a_part_of_a_long_text_is_no_item() -> None:
    rng = random.Random(5)
    words = [f"word{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(600)]
    texts = [" ".join(rng.choices(words, k=80)) for _ in range(50)]
    guard = guard_of(test=texts)
    assert guard.overlaps(" ".join(rng.sample(texts[7].split(), k=80))) is None
    assert guard.overlaps(" ".join(texts[7].split()[:40])) is None


def test_thousands_and_signs_are_read_alike() -> None:
    guard = guard_of(test=["A town of 12,500 people grows by −3 percent each year, how many live there then?"])
    assert guard.overlaps("a town of 12500 people grows by -3 percent each year how many live there then") == "test"
    for other in ("12501", "2500", "125000", "112500"):
        text = f"a town of {other} people grows by -3 percent each year how many live there then"
        assert guard.overlaps(text) is None


def test_languages_without_blanks() -> None:
    guard = guard_of(test=["小明有12个苹果，他又买了7个，现在一共有多少个苹果？", "???"])
    assert guard.overlaps("请回答：小明有12个苹果，他又买了7个，现在一共有多少个苹果？") == "test"
    assert guard.overlaps("小明有12个苹果，他又买了8个，现在一共有多少个苹果？") is None
    assert guard.overlaps("!!") is None


def test_a_field_that_many_items_share_need_not_be_in_the_row() -> None:
    facts = (
        "heart pumps blood",
        "lung takes in air",
        "liver makes bile",
        "skin keeps water out",
        "owl hunts mice",
        "eye",
    )
    asked = [{"question": f"Which organ is it: the {fact}?", "A": fact, "B": "None"} for fact in facts]
    subject = {"subject": "human anatomy for schools"}
    items = [KnownItem("quiz", "test", str(i), subject | fields, "A") for i, fields in enumerate(asked)]
    guard = Guard(items)
    assert guard.overlaps("Which organ is it: the liver makes bile? liver makes bile / None") == "test"
    assert guard.overlaps("human anatomy for schools: None") is None


def test_molecules_are_another_when_one_sign_is_another() -> None:
    asked = "Replace the hydroxyl group of the molecule {} by a halogen and give the whole new molecule."
    guard = guard_of(test=[asked.format(m) for m in ("CC(=O)Oc1ccccc1O", "OCC1=CC=CN1", "NC(=O)C1CCCCC1O")])
    assert guard.overlaps(asked.format("OCC1=CC=CN1").replace("-", " ")) == "test"
    assert guard.overlaps(asked.format("OCC1=CC=CS1")) is None


def test_a_table_as_json_is_found_as_text_and_as_values() -> None:
    table = {"columns": ["town", "visits"], "data": [["Adal", "7,229"], ["Brin", 3260], ["Isle", None]]}
    item = {"table": json.dumps(table), "question": "By how many visits does Adal come before Brin in that year?"}
    guard = Guard([KnownItem("b", "test", "1", item)])
    rows = [{"table": table, "q": item["question"].upper()}, {"text": f"{item['table']}\n{item['question']}"}]
    assert [hit is not None for hit in guard.find(rows)] == [True, True]


def test_row_with_several_splits_reports_most_secret_one() -> None:
    shown, unseen, test = (stories(seed, 1)[0] for seed in (5, 6, 7))
    guard = guard_of(validation=[shown], unseen=[unseen], test=[test])
    rows = [f"{shown} {test}", f"{shown} {unseen}", f"{test} {unseen}", f"{test} {shown} {unseen}", shown]
    hits = [hit for hit in guard.find(rows) if hit]
    assert [hit.split for hit in hits] == ["test", "unseen", "unseen", "unseen", "validation"]
    assert [(hit.id is None, hit.sealed) for hit in hits] == [(True, True)] * 4 + [(False, False)]


def test_guards_that_show_other_items_are_not_the_same() -> None:
    few, many = (guard_of(validation=VALIDATION[:n], unseen=VALIDATION[n:]) for n in (50, 100))
    assert few.identity != many.identity
    assert few.identity == guard_of(validation=VALIDATION[:50], unseen=VALIDATION[50:]).identity


def test_no_items_no_overlap() -> None:
    assert guard_of().overlaps("anything") is None


def test_item_behind_long_filler_is_found() -> None:
    filler = "and so the report was filed late " * 4_000
    rows = [{"a": filler, "b": TEST[0]}, filler, f"{filler} {TEST[1]} {filler}", TEST[2]]
    assert [hit is not None and hit.split for hit in GUARD.find(rows)] == ["test", False, "test", "test"]


def test_memory_for_a_long_row_grows_with_its_letters_alone() -> None:
    """Shingles of a part at a time; all at once took 40 bytes a letter."""
    row = "and so the report was filed late " * 300_000 + TEST[0]
    GUARD.overlaps(TEST[1])
    tracemalloc.start()
    assert GUARD.overlaps(row) == "test"
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * len(row) + (150 << 20)


def test_a_choice_with_another_option_is_a_copy() -> None:
    """What the test asks is in the row; with another question it is not."""
    asked = "Which of these rivers flows through the valley of Zorvexa before it reaches the sea?"
    fields = {"question": asked, "A": "the long Quenthir", "B": "the wide Brimoldo", "C": "the cold Vortling"}
    guard = Guard([KnownItem("b", "test", "1", fields, "B")])
    row = "\n".join([asked, "A. the long Quenthir", "B. the wide Brimoldo", "C. the cold Vortling"])
    for option in ("cold Vortling", "wide Brimoldo"):
        assert guard.overlaps(row.replace(option, "dry Snarfbell")) == "test"
    assert guard.overlaps(row.replace("valley", "forest")) is None


def test_the_question_of_a_choice_is_a_copy_where_one_item_asks_it() -> None:
    asked = "Which of these rivers flows through the valley of Zorvexa before it reaches the sea?"
    options = (
        "a long one that is called the Quenthir by all who live at its banks",
        "a wide one in the far south: Brimoldo",
    )
    forms = (
        {"question": asked, **dict(zip("AB", options, strict=True))},
        {"prompt": f"{asked}\nA. {options[0]}\nB. {options[1]}"},
        {"prompt": f"{asked}\n(A) {options[0]}\n(B) {options[1]}"},
    )
    for fields in forms:
        one = KnownItem("b", "test", "1", fields, "B")
        assert Guard([one]).overlaps(f"{asked} A: none. B: all") == "test"
        other = {
            name: text.replace("Quenthir", "Vortling").replace("Brimoldo", "Snarfbell") for name, text in fields.items()
        }
        assert Guard([one, KnownItem("b", "test", "2", other, "B")]).overlaps(f"{asked} A: none. B: all") is None


def test_a_clean_row_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    guard = guard_of(test=TEST[:50])
    rows = [{"instruction": q, "output": "\ud800"} for q in (*stories(7, 50), *TEST[:3])]
    first, read = list(guard.find(rows)), Mock(wraps=guard._read)
    monkeypatch.setattr(guard, "_read", read)
    assert list(guard.find(rows)) == first
    assert read.call_count == sum(hit is not None for hit in first) >= 3
    assert guard.overlaps(TEST[0] + rows[0]["instruction"]) == "test"


def test_rows_are_remembered_by_the_borders_of_their_fields() -> None:
    assert row_key(["ab", "c"]) != row_key(["a", "bc"]) != row_key(["abc"])
