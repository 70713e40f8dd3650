"""Profiles say what is true of generated data: roles, noise, repeats, agreement; small and fast."""

from __future__ import annotations

import json
import random
import time

import pytest

from tuneloop.core.catalog import Benchmark, Item
from tuneloop.core.errors import InvalidRequestError
from tuneloop.tools.raw_data.profile import profile_dataset

BOXED = Benchmark(name="own", description="A task.", answer="boxed")
SUFFIX = "\nEnd with \\boxed{answer}."


def sums(count, seed):
    rng = random.Random(seed)
    made: dict[str, tuple[int, int]] = {}
    while len(made) < count:
        a, b, who = rng.randint(2, 60), rng.randint(2, 60), rng.choice(("Ann", "Bob", "Eva"))
        made[f"{who} has {a} pens and finds {b} more pens. How many pens are there?"] = (a, b)
    return [(q, a, b) for q, (a, b) in made.items()]


def items(count=60):
    return [
        Item(id=str(i), fields={"prompt": q + SUFFIX}, answer=str(a + b)) for i, (q, a, b) in enumerate(sums(count, 1))
    ]


def put(folder, name, rows):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(json.dumps(r) + "\n" for r in rows))
    return folder


def test_roles_noise_and_agreement(tmp_path):
    book = sums(400, 2)
    rows = [
        {"nr": i, "ask": q, "how": f"{a} + {b} = {a + b}. So it is {a + b + (3 if i % 4 == 0 else 0)}.", "key": a + b, "no": i % 5}
        for i, (q, a, b) in enumerate(book)
    ]  # fmt: skip
    quiz = [{"q": q, "a": str(a + b + (5 if i % 2 else 0))} for i, (q, a, b) in enumerate(book[:100])]
    put(tmp_path / "d", "book.jsonl", rows + rows[:40])
    put(tmp_path / "d", "quiz.jsonl", quiz)
    profile = profile_dataset(tmp_path / "d", BOXED, items())
    by_name = {s.name: s for s in profile.sources}
    s, q = by_name["book.jsonl"], by_name["quiz.jsonl"]
    assert (s.reading.question, s.reading.solution, s.reading.key) == (("ask",), "how", "key")
    assert (q.reading.question, q.reading.solution, q.reading.key) == (("q",), "a", None)
    assert s.key_agreement == pytest.approx(0.75, abs=0.02) and q.key_agreement is None
    assert s.exact_duplicates == pytest.approx(40 / 440, abs=0.001)
    assert s.equations == 1 and s.worked == 1 and q.worked == 0
    assert profile.agreements[0].questions == 100 and profile.agreements[0].agreeing == pytest.approx(0.5, abs=0.02)
    assert s.contradicted is not None and s.contradicted == q.contradicted, "of two alone neither is believed"
    facts = profile.benchmark
    assert facts.prompt_suffix == SUFFIX and facts.answer_shape == "integer" and facts.options is None


def test_voted_answers_and_false_equations(tmp_path):
    rows = []
    for i, (q, a, b) in enumerate(sums(200, 3)):
        for k in range(3):
            c = a + b + (1 if (i % 2 == 0 and k == 0) else 0)
            rows.append(
                {
                    "conversations": [
                        {"from": "human", "value": q.upper() if k else q},
                        {"from": "gpt", "value": f"Sure! {a} + {b} = {c}. Bye now."},
                    ]
                }
            )
    s = profile_dataset(put(tmp_path / "d", "m.jsonl", rows), BOXED, items()).sources[0]
    assert s.reading.question == ("conversations[from=human].value",)
    assert s.repeated == 1 and s.disagreeing == pytest.approx(0.5, abs=0.02)
    assert s.false_equations == pytest.approx(1 / 6, abs=0.02)
    assert s.near_duplicates > 0.3 and s.chatter == 1


def test_solutions_without_their_last_step(tmp_path):
    rows = [
        {"q": q, "a": f"{a}+{b}={a + b}\n" + f"{a + b}+1={a + b + 1}\n" * (i % 4 > 0) + f"{a + b}+2={a + b + 2}\nAnswer: "
         f"{a + b + (3 if i % 2 else 2)}"}
        for i, (q, a, b) in enumerate(sums(200, 5))
    ]  # fmt: skip
    s = profile_dataset(put(tmp_path / "d", "m.jsonl", rows), BOXED, items()).sources[0]
    assert s.unfinished == pytest.approx(0.5) and s.false_equations == 0


def test_overlap_with_validation_and_off_topic_rows(tmp_path):
    rows = [{"q": q, "a": str(a + b)} for q, a, b in sums(60, 1)[:30] + sums(70, 4)]
    rows += [{"q": f"Tell me joke {i}.", "a": "No, thank you."} for i in range(25)]
    s = profile_dataset(put(tmp_path / "d", "m.jsonl", rows), BOXED, items()).sources[0]
    assert s.validation_overlap >= 30 / 125 and s.off_topic == pytest.approx(25 / 125, abs=0.02)
    assert s.answered == pytest.approx(0.8, abs=0.01)


def test_records_with_validation_items_are_named(tmp_path):
    asked = [q for q, _, _ in sums(60, 1)]
    rows = [
        {"meta": {"id": i}, "talk": [{"say": q.upper() if i % 2 else f"Other {i}?"}]} for i, q in enumerate(asked[:8])
    ]
    profile = profile_dataset(
        put(tmp_path / "d", "m.jsonl", rows), BOXED, items(), overlapping={"m.jsonl": "1 3 5 7", "other": "9"}
    )
    assert [source.overlapping for source in profile.sources] == ["1 3 5 7"]
    assert (profile.sources[0].rows, profile.sources[0].sampled) == (8, 8)


def test_options_and_labels_are_seen(tmp_path):
    choice = Benchmark(name="own", description="One letter.", answer="choice")
    asked = [
        Item(id=str(i), fields={"prompt": f"Which is number {i}?\nOptions:\n(A) one {i}\n(B) two\n(C) three"}, answer="ABC"[i % 3])
        for i in range(30)
    ]  # fmt: skip
    rows = [
        {"question": f"Which is number {i}?", "options": {"A": "x", "B": "y", "C": "z"}, "answer_idx": "B"}
        for i in range(50)
    ]
    profile = profile_dataset(put(tmp_path / "d", "m.jsonl", rows), choice, asked)
    style = profile.benchmark.options
    assert style is not None and (style.mark, style.separator, style.lead, style.count) == (
        "({}) ",
        "\n",
        "\nOptions:\n",
        3,
    )
    assert profile.sources[0].reading.options == ("options.A", "options.B", "options.C")
    assert profile.sources[0].reading.solution == "answer_idx"
    assert profile.benchmark.answer_shape == "letter"


def test_small_and_fast(tmp_path):
    rng = random.Random(5)
    for n in range(6):
        rows = [
            {"question": q, "answer": f"{a} + {b} = {a + b}. Answer: {a + b}", **{f"meta{k}": "lorem " * 60 for k in range(12)}}
            for q, a, b in sums(2500, 10 + n)
        ]  # fmt: skip
        put(tmp_path / "d", f"part{n}.jsonl", rng.sample(rows, len(rows)))
    before = time.process_time()
    profile = profile_dataset(tmp_path / "d", BOXED, items(200))
    assert time.process_time() - before < 60
    assert len(profile.model_dump_json().encode()) <= 20_000
    assert sum(s.rows for s in profile.sources) == 15_000


def test_a_folder_without_records_is_refused(tmp_path):
    with pytest.raises(InvalidRequestError, match="no JSON"):
        profile_dataset(tmp_path, BOXED, items())


def test_the_same_every_time(tmp_path):
    rows = [{"q": q, "a": str(a + b)} for q, a, b in sums(100, 6)]
    folder = put(tmp_path / "d", "m.jsonl", rows)
    assert profile_dataset(folder, BOXED, items()) == profile_dataset(folder / "m.jsonl", BOXED, items()).model_copy(
        update={"name": "d", "readme": ""}
    )
