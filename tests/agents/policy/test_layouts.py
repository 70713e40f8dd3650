"""First recipes on data of many layouts: the script runs and its rows are what the benchmark would ask and its scorer read."""

from __future__ import annotations

import random

import pytest

from tuneloop.tools.data_script.static_check import check_script
from tuneloop.tools.scoring.answer_matching import correct

PEOPLE, THINGS = ("Ann", "Bob", "Eva", "Joe", "Kim", "Lea"), ("pens", "cups", "hats", "nuts", "bags")


def by_question(data, truth, ask=lambda q: q):
    """Rows by their raw question; every instruction must be the benchmark's prompt for it."""
    asked = {ask(q): q for q in truth}
    assert data and all(row["instruction"] in asked for row in data), data[0]["instruction"]
    assert all(set(row) == {"instruction", "input", "output"} and row["output"] for row in data)
    return [(asked[row["instruction"]], row["output"]) for row in data]


def purity(data, truth, kind, ask=lambda q: q):
    """Share of rows whose output the scorer counts as right."""
    rows = by_question(data, truth, ask)
    return sum(correct(kind, truth[q], out) for q, out in rows) / len(rows)


def test_gsm_style_jsonl_with_calculator_marks(world, kit):
    train = [
        {"question": q, "answer": s.replace("= ", "= <<1+1=2>>") + f"\n#### {a}"} for q, s, a in kit.stories(300, 1)
    ]
    w = world(
        "boxed",
        [(q + "\nPut the answer in \\boxed{}.", a) for q, _, a in kit.stories(60, 2)],
        {"train.jsonl": train},
    )
    truth = {q: a for q, _, a in kit.stories(300, 1)}
    data = w.first_rows()
    assert len(data) > 250
    assert purity(data, truth, "boxed", lambda q: q + "\nPut the answer in \\boxed{}.") == 1
    assert not any("<<" in row["output"] or "####" in row["output"] for row in data)


@pytest.mark.parametrize("base", [0, 1])
def test_choices_in_a_list_with_numbers_for_letters(world, base):
    rng = random.Random(3)

    def quiz():
        a, b = rng.randint(2, 99), rng.randint(2, 99)
        options = rng.sample([a + b, a + b + 1, a + b - 2, abs(a - b) + 200], 4)
        return f"What do you get when you add {a} and {b} together?", [str(o) for o in options], options.index(a + b)

    def ask(q, options):
        lines = "\n".join(f"{c}. {o}" for c, o in zip("ABCD", options, strict=True))
        return f"{q}\n{lines}\nAnswer with one letter."

    items = [(ask(q, o), "ABCD"[i]) for q, o, i in (quiz() for _ in range(60))]
    rows = [quiz() for _ in range(400)]
    train = [{"id": n, "stem": q, "choices": o, "answer": i + base} for n, (q, o, i) in enumerate(rows)]
    w = world("choice", items, {"train.json": {"version": "1", "data": train}})
    truth = {ask(q, o): "ABCD"[i] for q, o, i in rows}
    data = w.first_rows()
    assert len(data) > 300
    assert purity(data, truth, "choice") == 1


def test_choices_in_columns_with_an_explanation(world):
    rng = random.Random(4)

    def quiz():
        word = rng.choice(("cat", "dog", "cow", "hen", "fox", "owl", "bee", "ant"))
        n = rng.randint(1, 999)
        sounds = {
            "cat": "meow",
            "dog": "woof",
            "cow": "moo",
            "hen": "cluck",
            "fox": "yap",
            "owl": "hoot",
            "bee": "buzz",
            "ant": "none",
        }
        wrong = rng.sample([s for s in sounds.values() if s != sounds[word]], 3)
        options = rng.sample([sounds[word], *wrong], 4)
        return f"Which sound does {word} number {n} make?", options, options.index(sounds[word]), word, sounds[word]

    def ask(q, o):
        return f"{q}\nA) {o[0]}\nB) {o[1]}\nC) {o[2]}\nD) {o[3]}"

    rows = [quiz() for _ in range(500)]
    train = [
        {
            "question": q,
            "opa": o[0],
            "opb": o[1],
            "opc": o[2],
            "opd": o[3],
            "cop": i + 1,
            "exp": f"Every {w} goes {s} as we all know well.",
        }
        for q, o, i, w, s in rows
    ]
    items = [(ask(q, o), "ABCD"[i]) for q, o, i, _, _ in (quiz() for _ in range(60))]
    w = world("choice", items, {"medium.csv": train})
    truth = {ask(q, o): "ABCD"[i] for q, o, i, _, _ in rows}
    data = w.first_rows()
    assert len(data) > 300
    assert purity(data, truth, "choice") == 1


def test_german_parquet_with_a_number_after_a_word(world):
    rng = random.Random(5)
    rows = []
    for _ in range(400):
        a, b = rng.randint(3, 90), rng.randint(3, 90)
        rows.append(
            (
                f"Anna hat {a} Äpfel und kauft {b} dazu. Wie viele Äpfel hat sie?",
                f"{a} + {b} = {a + b}. Die Lösung ist {a + b}.",
                str(a + b),
            )
        )
    train = [{"nr": i, "aufgabe": q, "loesung": s, "stufe": rng.randint(1, 9)} for i, (q, s, _) in enumerate(rows)]
    items = [(f"Aufgabe: {q}\nSchreibe am Ende 'Ergebnis: <Zahl>'.", a) for q, _, a in rows[:50]]
    w = world("number", items, {"aufgaben.parquet": train}, description="Ends with Ergebnis: <number>")
    data = w.first_rows()
    truth = {q: a for q, _, a in rows}
    assert purity(data, truth, "number", lambda q: f"Aufgabe: {q}\nSchreibe am Ende 'Ergebnis: <Zahl>'.") == 1
    assert all("Ergebnis: " in row["output"] for row in data)


COMPLAINTS = {
    "billing": ("my invoice is wrong", "I was charged twice", "refund my payment please"),
    "delivery": ("the parcel never came", "my package is late", "the courier lost my box"),
    "account": ("I cannot log in", "my password does not work", "please reset my login"),
}


def ticket(rng):
    label = rng.choice(list(COMPLAINTS))
    return (
        f"Hello, {rng.choice(COMPLAINTS[label])}, order {rng.randint(100, 99999)}, {rng.choice(THINGS)} and {rng.choice(THINGS)}.",
        label,
    )


def test_tickets_to_labels_with_untidy_writing_and_other_fields(world):
    rng = random.Random(6)
    rows = [ticket(rng) for _ in range(500)]
    untidy = (str.upper, str.title, lambda t: f" {t} ", lambda t: t.replace("il", "i"), str)
    train = [
        {
            "ticket_id": i,
            "created": "2024-01-01",
            "body": q,
            "agent_reply": "Dear customer, thank you for writing to us. We will look into it.",
            "category": rng.choice(untidy)(label),
            "priority": rng.randint(1, 5),
        }
        for i, (q, label) in enumerate(rows)
    ]
    items = [(f"Classify this ticket.\n{q}\nLabel:", a) for q, a in (ticket(rng) for _ in range(80))]
    w = world("exact", items, {"tickets.csv": train}, description="Reply with billing, delivery or account.")
    data = w.first_rows()
    assert len(data) > 350
    assert purity(data, dict(rows), "exact", lambda q: f"Classify this ticket.\n{q}\nLabel:") == 1


@pytest.mark.parametrize("coded", [("0", "1", "2"), ("payments", "shipping", "login failure")])
def test_class_codes_are_read_by_what_their_questions_say(world, coded):
    rng = random.Random(6)
    rows = [ticket(rng) for _ in range(500)]
    code = dict(zip(COMPLAINTS, coded, strict=True))
    train = [{"text": q, "label": code[label]} for q, label in rows]
    w = world("exact", [ticket(rng) for _ in range(80)], {"tickets.jsonl": train}, description="One of three words.")
    data = w.first_rows()
    assert len(data) > 350
    assert purity(data, dict(rows), "exact") == 1


def test_wrong_labels_among_many_are_found_by_their_words(world):
    rng = random.Random(8)
    rows = [ticket(rng) for _ in range(900)]
    train = [
        {
            "text": q,
            "label": rng.choice([other for other in COMPLAINTS if other != label]) if rng.random() < 0.25 else label,
        }
        for q, label in rows
    ]
    w = world("exact", [ticket(rng) for _ in range(80)], {"tickets.jsonl": train}, description="One of three words.")
    first = w.hypothesis()
    before = purity(w.run(w.script(first).code), dict(rows), "exact")
    second = w.hypothesis(experiment=2, journal=(w.row(1, first, value=60.0, rows=800),))
    after = purity(w.run(w.script(second).code), dict(rows), "exact")
    assert second.aspect == "noise" and "drop_unlikely_labels" in [s.do for s in second.data_plan]
    assert before < 0.8 and after > 0.97


def test_conversations_with_a_system_turn_for_a_pattern(world, kit):
    rows = kit.stories(300, 7)
    train = [
        {
            "messages": [
                *([{"role": "system", "content": "You are a helpful tutor."}] if i % 2 else []),
                {"role": "user", "content": q},
                {"role": "assistant", "content": f"{s} The answer is {a}."},
            ],
            "lang": "en",
        }
        for i, (q, s, a) in enumerate(rows)
    ]
    items = [(q, a) for q, _, a in kit.stories(60, 8)]
    w = world(r"regex:Result:\s*(-?\d+)", items, {"chat.jsonl": train}, description="End with Result: and the number.")
    data = w.first_rows()
    assert len(data) > 250
    assert purity(data, {q: a for q, _, a in rows}, r"regex:Result:\s*(-?\d+)") == 1
    assert all(row["output"].splitlines()[-1].startswith("Result: ") and "+" in row["output"] for row in data)


def test_two_item_fields_and_nested_answers(world):
    rng = random.Random(9)
    towns = ("Rome", "Oslo", "Lima", "Cairo", "Quito", "Delhi", "Paris", "Kyoto")

    def fact():
        who, town, day = rng.choice(PEOPLE), rng.choice(towns), rng.randint(1, 28)
        text = f"On day {day} of the month {who} travelled to {town} with a friend. The weather was fine and everybody was happy."
        return text, f"Where did {who} go on day {day}?", town

    rows = [fact() for _ in range(400)]
    train = [
        {"id": str(i), "title": "travel", "context": c, "question": q, "answers": {"text": [a], "answer_start": [3]}}
        for i, (c, q, a) in enumerate(rows)
    ]
    items = [({"passage": c, "question": q}, a) for c, q, a in (fact() for _ in range(60))]
    prompt = "{passage}\n\nQuestion: {question}\nAnswer in one word."
    w = world("exact", items, {"squad.json": train}, prompt=prompt)
    truth = {prompt.replace("{passage}", c).replace("{question}", q): a for c, q, a in rows}
    data = w.first_rows()
    assert len(data) > 300
    assert purity(data, truth, "exact") == 1


def test_one_text_field_with_marks_inside(world, kit):
    rows = kit.stories(200, 10)
    train = [{"text": f"Question: {q}\nAnswer: {s} So it is {a}"} for q, s, a in rows]
    w = world("number", [(q, a) for q, _, a in kit.stories(50, 11)], {"all.jsonl": train})
    data = w.first_rows()
    assert len(data) > 150
    assert purity(data, {q: a for q, _, a in rows}, "number") == 1


def test_instruction_and_input_make_one_prompt(world):
    rng = random.Random(12)
    rows = []
    for _ in range(300):
        numbers = [rng.randint(1, 99) for _ in range(5)]
        rows.append((" ".join(map(str, numbers)) + " " + " ".join(rng.sample(THINGS, 3)), str(max(numbers))))
    train = [{"instruction": "Find the largest number in the line.", "input": q, "output": a} for q, a in rows]
    items = [(f"Find the largest number in the line.\n{q}", a) for q, a in rows[:40]]
    w = world("number", items, {"alpaca.json": train})
    data = w.first_rows()
    truth = {f"Find the largest number in the line.\n{q}": a for q, a in rows}
    assert len(data) > 200
    assert purity(data, truth, "number") == 1


def test_several_files_of_several_formats_and_one_off_topic(world, kit):
    book, model, chat = kit.stories(300, 13), kit.stories(200, 14), kit.stories(100, 15)
    rng = random.Random(1)
    wrong = {q for q, _, _ in book if rng.random() < 0.4}
    files = {
        "book.tsv": [{"exercise": q, "working": s, "final": str(int(a) + 7) if q in wrong else a} for q, s, a in book],
        "model.jsonl": [
            {"conversations": [{"from": "human", "value": q}, {"from": "gpt", "value": f"{s} Answer: {a}"}]}
            for q, s, a in model
        ],
        "chat.json": {"columns": {"asked": [q for q, _, _ in chat], "said": [f"I say {a}" for _, _, a in chat]}},
        "recipes.csv": [
            {"dish": f"soup number {i}", "text": "Boil water, add salt and stir for a long time."} for i in range(200)
        ],
    }
    w = world("boxed", [(q + "\nUse \\boxed{}.", a) for q, _, a in kit.stories(80, 16)], files)
    truth = {q: a for q, _, a in (*book, *model, *chat)}
    data = w.first_rows()
    assert len(data) > 300
    assert purity(data, truth, "boxed", lambda q: q + "\nUse \\boxed{}.") == 1


def test_one_file_that_mixes_sources(world, kit):
    a, b = kit.stories(200, 17), kit.stories(200, 18)
    rows = [{"source": "x", "problem": q, "worked": f"{s} So {r}."} for q, s, r in a]
    rows += [{"source": "y", "input": {"text": q}, "output": {"text": f"{s} I get {r}."}} for q, s, r in b]
    random.Random(0).shuffle(rows)
    w = world("number", [(q, r) for q, _, r in kit.stories(60, 19)], {"mixed.jsonl": rows})
    data = w.first_rows()
    assert len(data) > 350
    assert purity(data, {q: r for q, _, r in (*a, *b)}, "number") == 1


def test_steps_in_a_list_and_answers_with_units(world, kit):
    rows = kit.stories(300, 30)
    train = [
        {"prob": q, "steps": [part.strip(" .") for part in s.split("Then")], "result": f"{a} pens"} for q, s, a in rows
    ]
    w = world("number", [(q, a) for q, _, a in kit.stories(60, 31)], {"rows.json": train})
    first = w.hypothesis()
    options = first.data_plan[0].options
    assert (options["solution"], options["key"]) == ("steps[]|join", "result")
    data = w.run(w.script(first).code)
    assert len(data) > 250 and purity(data, {q: a for q, _, a in rows}, "number") == 1
    assert all(row["output"].count("=") == 2 for row in data)


def test_a_sources_own_wording_and_its_verdict_on_rows(world, kit):
    rows = kit.noisy_stories(500, 32, 0.4)
    train = [
        {
            "messages": f"You are a careful tutor, please reply politely.\n{q}\nThanks in advance, dear friend!",
            "reply": s,
            "verified": s.split("Then")[1].count(right) > 0,
        }
        for q, s, right, _ in rows
    ]
    w = world("boxed", [(q + "\nUse \\boxed{}.", a) for q, _, a in kit.stories(60, 33)], {"rows.jsonl": train})
    data = w.first_rows()
    truth = {q: right for q, _, right, _ in rows}
    assert len(data) > 200 and purity(data, truth, "boxed", lambda q: q + "\nUse \\boxed{}.") > 0.98


def test_arithmetic_in_words_becomes_equations_for_a_tiny_model(world, kit):
    rows = kit.stories(300, 40)
    words = {"+": "plus", "-": "minus", "=": "makes", "Then": "and then"}
    train = [
        {"q": q, "reply": f"Of course! We take {' '.join(words.get(t, t) for t in s.split())}"} for q, s, a in rows
    ]
    w = world("number", [(q, a) for q, _, a in kit.stories(60, 41)], {"rows.json": train})
    data = w.first_rows()
    assert len(data) > 250 and purity(data, {q: a for q, _, a in rows}, "number") == 1
    assert all(row["output"].count("=") == 2 and "plus" not in row["output"] for row in data)


def test_yes_and_no_written_as_booleans(world):
    rng = random.Random(1)
    rows = [
        (f"Is {n} an even number that two can share?", "yes" if n % 2 == 0 else "no")
        for n in rng.sample(range(999), 400)
    ]
    train = [{"question": q, "answer": a == "yes"} for q, a in rows[60:]]
    data = world("exact", rows[:60], {"rows.jsonl": train}).first_rows()
    assert len(data) > 300 and purity(data, dict(rows), "exact") == 1


def test_options_with_their_letters_beside_an_answer_key(world, kit):
    rows = [(q, [str(int(a) + 9), a, str(int(a) + 5)], a) for q, _, a in kit.stories(200, 50)]
    train = [
        {"question": q, "choices": {"text": o, "label": ["A", "B", "C"]}, "answerKey": "B"} for q, o, _ in rows[1::2]
    ]
    train += [
        {"question": q, "choices": {"text": o[::-1], "label": ["A", "B", "C"]}, "answerKey": "B"}
        for q, o, _ in rows[::2]
    ]

    def ask(q, o):
        return f"{q}\n(A) {o[0]} (B) {o[1]} (C) {o[2]}\nThe letter only."

    items = [(ask(q, [a, f"{int(a) + 1}", f"{int(a) + 7}"]), "A") for q, _, a in kit.stories(40, 51)]
    data = world("choice", items, {"arc.parquet": train}).first_rows()
    truth = {ask(q, o if i % 2 else o[::-1]): "B" for i, (q, o, _) in enumerate(rows)}
    assert len(data) > 150 and purity(data, truth, "choice") == 1


def test_replies_that_repeat_the_chosen_option_are_bare(world, kit):
    def ask(q, a, n):
        return f"{q}\nA. {int(a) + n}\nB. {a}\nC. {int(a) + 20}\nAnswer:"

    train = [{"input": ask(q, a, 3), "output": f"B. {a}"} for q, _, a in kit.stories(200, 52)]
    w = world("choice", [(ask(q, a, 4), "B") for q, _, a in kit.stories(40, 53)], {"rows.json": train})
    assert {row["output"] for row in w.first_rows()} == {"Answer: B"}


def test_debug_writes_about_a_hundred_rows_and_scripts_pass_the_check(world, kit):
    rows = [{"q": q, "s": f"{s} Answer: {a}"} for q, s, a in kit.stories(900, 20)]
    w = world("number", [(q, a) for q, _, a in kit.stories(60, 21)], {"rows.jsonl": rows})
    code = w.script(w.hypothesis()).code
    assert check_script(code, frozenset({"pyarrow"})) == []
    assert len(w.run(code, "--debug")) == 100
    assert 500 < len(w.run(code)) <= 2000
