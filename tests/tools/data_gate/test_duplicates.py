"""Copies, near copies and questions asked again are counted; problems of one template are not."""

import random
import time
import tracemalloc

from tuneloop.tools.data_gate.duplicates import DuplicateCounts, DuplicateIndex
from tuneloop.tools.data_gate.records import TrainingRow

WORDS = [f"word{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(500)]


def row(asked: str, output: str = "\\boxed{2}") -> TrainingRow:
    return TrainingRow((asked,), (output,), {})


def found(*rows: TrainingRow, batch: int = 2) -> DuplicateCounts:
    repeats = DuplicateIndex()
    for i in range(0, len(rows), batch):
        some = rows[i : i + batch]
        repeats.add(list(some), list(range(i + 1, i + 1 + len(some))))
    return repeats.found()


def long_text(seed: int, n: int = 80) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=n))


def test_copies_near_copies_and_questions_asked_again() -> None:
    got = found(row("What is 1?"), row("What is 1?"), row("what IS 1", "It: \\boxed{2}."), row("What is 1?", "3"))
    assert (got.exact, got.near, got.reasked) == (1, 0, 2)
    assert found(row("4 + 1", "5"), row("4 - 1", "5")) == DuplicateCounts()
    assert found() == DuplicateCounts()


def test_a_word_changed_in_a_long_row_is_a_near_copy() -> None:
    texts = [long_text(i) for i in range(200)]
    changed = [f"{' '.join(t.split()[:39])} other {' '.join(t.split()[40:])}" for t in texts]
    rows = [row(t) for t in (*texts, *changed)]
    got = found(*rows, batch=7)
    assert got.near > 180
    assert got.exact == got.reasked == 0
    assert got.first == (201, 1)


def test_other_texts_and_other_numbers_are_none() -> None:
    assert found(*[row(long_text(i)) for i in range(500)]).near == 0
    base = long_text(1)
    assert found(*[row(f"{base} {n} and {n + 1}", f"{n}") for n in range(300)]).near == 0
    assert found(row(f"{base} 3 4"), row(f"{base} 4 3")).near == 0


def test_half_the_words_changed_is_none() -> None:
    def half(seed: int) -> str:
        words = long_text(seed).split()
        return " ".join(w if i % 8 else f"other{chr(97 + i % 26)}" for i, w in enumerate(words))

    assert found(*[row(t(i)) for i in range(100) for t in (long_text, half)]).near < 5


def test_short_rows_beside_long_ones() -> None:
    rows = [row("a"), row(long_text(1)), row("b c"), row(long_text(1) + " more"), row(""), row("a b c d e f g h")]
    assert found(*rows, batch=6).first == (4, 2)


def test_the_same_in_any_batches() -> None:
    texts = [long_text(i % 40) + (" more" if i > 40 else "") for i in range(120)]
    assert len({found(*map(row, texts), batch=n) for n in (1, 7, 120)}) == 1


def test_many_rows_take_little_time_and_memory() -> None:
    rows = [row(long_text(i, 40)) for i in range(1000)]
    repeats = DuplicateIndex()
    before = time.process_time()
    for i in range(10):
        repeats.add(rows, list(range(1000 * i, 1000 * i + 1000)))
    assert repeats.found().exact == 9000
    assert time.process_time() - before < 20
    tracemalloc.start()
    for i in range(10):
        repeats.add(rows, list(range(1000 * i, 1000 * i + 1000)))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 10_000 * 120
