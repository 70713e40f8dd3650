"""Benchmarks become whole folders, and every mistake of a user's folder is one line that names its place."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tuneloop.agents.policy.rows import Row, alpaca
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.layout import Home
from tuneloop.core.settings import Settings
from tuneloop.tools.benchmark_items import resolve
from tuneloop.tools.benchmark_items.folder import read_items, render_prompt, sealed_items, select_validation
from tuneloop.tools.benchmark_items.resolve import load_entry, registered_names, resolve_benchmark
from tuneloop.tools.scoring import scorer
from tuneloop.tools.scoring.answer_matching import gold

YAML = "name: capitals\ndescription: Name the capital.\nanswer: exact\nprompt: '{question} Reply as \\boxed{answer}.'\n"


def rows(split: str, n: int = 5) -> list[dict[str, object]]:
    return [{"question": f"{split} country {i}?", "answer": f"City {i}"} for i in range(n)]


def write(folder: Path, yaml: str = YAML, **splits: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "benchmark.yaml").write_text(yaml)
    for split in ("validation", "test"):
        value = splits.get(split, rows(split))
        text = value if isinstance(value, str) else "\n".join(json.dumps(row) for row in value) + "\n"
        (folder / f"{split}.jsonl").write_text(text)
    return folder


def test_every_registered_benchmark_tells_its_licence() -> None:
    unsaid = [name for name in registered_names() if load_entry(name)[0].licence == "unknown"]
    assert unsaid == []


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def refused(home: Home, source: Path | str) -> str:
    with pytest.raises(InvalidRequestError) as e:
        resolve_benchmark(str(source), home, None)
    line = str(e.value)
    assert "\n" not in line
    assert not [p for p in home.benchmarks.glob("*") if not p.name.startswith(".")]
    return line


@pytest.mark.parametrize(
    "name", [name for name in registered_names() if not load_entry(name)[0].source and not load_entry(name)[0].parts]
)
def test_every_made_entry_is_whole_and_deterministic(name: str, tmp_path: Path) -> None:
    folder = resolve_benchmark(name, Home(tmp_path / "a"), None)
    again = resolve_benchmark(name, Home(tmp_path / "b"), None)
    assert folder.fingerprint == again.fingerprint
    assert folder.benchmark == load_entry(name)[0]
    assert folder.sealed == folder.root / "sealed"
    for found in (select_validation(folder).every, sealed_items(folder)):
        assert found
        assert all(gold(folder.benchmark.answer, item.answer) for item in found)
        assert all(render_prompt(folder.benchmark, item).strip() for item in found)


ENDS = {  # a gold answer, and what stands for it in a reply
    "choice": ("B", "B"),
    "boxed": ("7", "7"),
    "scorer:contest_integer": ("204", "204"),
    "scorer:bbh": ("(A)", "(A)"),
    "scorer:final_number": ("7", "7"),
    "scorer:tablebench": ('{"answer": "5, -3.2%", "metric": "em"}', "5, -3.2%"),
    "scorer:par4pc": ('{"gold": ["A", "C"], "silver": []}', "A, C"),
    "scorer:pi4pc": ('{"gold": [17], "silver": []}', "17"),
    "scorer:noc4pc": ("ALLOW", "ALLOW"),
    "scorer:bioprobench_pqa": ('{"answer": "PBS", "choices": ["PBS", "water"]}', "PBS"),
    "scorer:bioprobench_ord": ('{"steps": ["b", "a"], "order": ["a", "b"]}', "[1, 0]"),
    "scorer:bioprobench_err": ("False", "False"),
    "scorer:bioprobench_gen": ('["Mix the two well."]', "Mix the two well."),
}


@pytest.mark.parametrize("name", [name for name in registered_names() if not load_entry(name)[0].parts])
def test_what_ends_as_the_entry_says_is_what_its_scorer_reads(name: str) -> None:
    """Training data that are made with this ending teach the form that counts."""
    benchmark = load_entry(name)[0]
    assert benchmark.final or benchmark.answer == "boxed"
    if scorer.is_judged_here(benchmark) and not benchmark.executed:
        answer, said = ENDS[benchmark.answer]
        row = Row(source="s", fields={"q": "?"}, solution="3 of them. I look at each one.", answer=said)
        form = {
            "prompt": "{q}",
            "prefixes": {},
            "suffixes": {},
            "steps": True,
            "final": benchmark.final or "\\boxed{ANSWER}",
        }
        assert scorer.judge_reply(benchmark, answer, alpaca(row, form)["output"])["value"] == 1


def test_helpers_of_the_package_are_no_entries() -> None:
    assert "wordproblems" in registered_names()
    assert not {"scoring", "folder", "own", "checking"} & set(registered_names())


def test_an_unknown_name_is_answered_with_the_nearest(home: Home) -> None:
    assert "did you mean 'wordproblems'?" in refused(home, "wordproblem")


def test_a_lost_folder_is_named(home: Home, tmp_path: Path) -> None:
    assert f"benchmark {tmp_path / 'lost'}: no such folder" in refused(home, tmp_path / "lost")


def test_two_at_once_fetch_once(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    _, entry = load_entry("wordproblems")
    fetch, calls = entry.fetch, []

    def noted(folder: Path) -> None:
        calls.append(1)
        fetch(folder)

    monkeypatch.setattr(entry, "fetch", noted)
    threads = [threading.Thread(target=resolve_benchmark, args=("wordproblems", home, None)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1


def test_what_a_killed_fetch_left_is_made_again(home: Home) -> None:
    half = home.benchmarks / ".wordproblems.part"
    half.mkdir(parents=True)
    (half / "validation.jsonl").write_text("{")
    (home.benchmarks / "wordproblems").mkdir()
    assert select_validation(resolve_benchmark("wordproblems", home, None)).every


def test_a_users_folder_is_copied_and_stays_as_it_was(home: Home, tmp_path: Path) -> None:
    source = write(tmp_path / "own")
    before = {p.name: p.read_bytes() for p in source.iterdir()}
    folder = resolve_benchmark(str(source), home, None)
    assert {p.name: p.read_bytes() for p in source.iterdir()} == before
    assert folder.root.parent == home.benchmarks
    assert folder.root.name.startswith("capitals-")
    files = {str(p.relative_to(folder.root)) for p in folder.root.rglob("*") if p.is_file()}
    assert files == {
        "benchmark.yaml", "validation.jsonl", "sealed/validation.jsonl", "sealed/test.jsonl", "manifest.json"
    }  # fmt: skip
    assert [item.id for item in read_items(folder.validation)] == [f"validation-{i}" for i in range(5)]
    first = read_items(folder.validation)[0]
    assert (first.id, first.answer) == ("validation-0", "City 0")
    assert render_prompt(folder.benchmark, first) == "validation country 0? Reply as \\boxed{answer}."
    assert [item.id for item in sealed_items(folder)] == [f"test-{i}" for i in range(5)]
    assert resolve_benchmark(str(source), home, None) == folder


def test_other_contents_get_another_folder(home: Home, tmp_path: Path) -> None:
    a = resolve_benchmark(str(write(tmp_path / "own")), home, None)
    b = resolve_benchmark(str(write(tmp_path / "own", test=rows("other"))), home, None)
    assert a.root != b.root
    assert a.fingerprint != b.fingerprint


def test_the_description_can_be_replaced(home: Home, tmp_path: Path) -> None:
    source = write(tmp_path / "own", "name: x\nprompt: '{question}'\n")
    assert resolve_benchmark(str(source), home, "Do it.").benchmark.description == "Do it."
    assert resolve_benchmark("wordproblems", home, "Do it.").benchmark.description == "Do it."


def test_numbers_lists_and_latex_in_templates(home: Home, tmp_path: Path) -> None:
    yaml = "name: x\ndescription: d\nanswer: choice\nprompt: '{q} {options} \\frac{a}{b} {\"answer\": 1} {answer}'\n"
    made = [{"q": i, "options": ["x", 2], "answer": "b", "id": i} for _ in (0, 1) for i in (1, 2)]
    for row in made[2:]:
        row["q"] = f"other {row['q']}"
    folder = resolve_benchmark(str(write(tmp_path / "own", yaml, validation=made[:2], test=made[2:])), home, None)
    first = read_items(folder.validation)[0]
    assert render_prompt(folder.benchmark, first) == '1 A. x\nB. 2 \\frac{a}{b} {"answer": 1} {answer}'
    assert first.id == "1"


BAD_YAML = [
    ("name: x\ndescripton: d\n", "key 'descripton' is unknown: did you mean 'description'?"),
    ("name: x\n", "description: Field required"),
    ("name: [\n", "benchmark.yaml:2: not YAML"),
    ("- a\n", "right is keys and values"),
    ("name: x\ndescription: d\nanswer: letters\n", "answer: answer is 'letters'; right is one of boxed"),
    ("name: x\ndescription: d\nanswer: 'regex:('\n", "is no regular expression"),
    ("name: x\ndescription: d\nanswer: 'regex:(a+)+'\n", "take for ever"),
    ("name: x\ndescription: d\ndirection: up\n", "direction: Input should be 'max' or 'min' (given: 'up')"),
    ("name: a/b\ndescription: d\n", "name: String should match pattern"),
    ("name: x\ndescription: d\n", "the prompt names {prompt}, which no item has; known are question"),
    ("name: x\ndescription: d\nprompt: '{qestion}'\n", "did you mean 'question'?"),
    ("name: x\ndescription: d\nprompt: 'Say hello'\n", "uses no field of the items"),
]


@pytest.mark.parametrize(("yaml", "says"), BAD_YAML)
def test_bad_declarations(yaml: str, says: str, home: Home, tmp_path: Path) -> None:
    assert says in refused(home, write(tmp_path / "own", yaml))


Q = "name: x\ndescription: d\nanswer: {}\nprompt: '{{question}}'\n"
BAD_ITEMS = [
    ("exact", '{"question": "a", "answer": "b"}\n{oops\n', "validation.jsonl:2: not JSON"),
    ("exact", "\n\n[1]\n", "validation.jsonl:3: not a JSON object"),
    ("exact", "\n", "validation.jsonl: no items"),
    ("exact", [{"question": "a", "answer": "b"}, {"answer": "b"}], "validation.jsonl:2: field 'question' is missing"),
    ("exact", [{"question": "a"}], "validation.jsonl:1: field 'answer' is missing"),
    ("exact", [{"question": "a", "answer": "  "}], "validation.jsonl:1: answer is empty"),
    ("exact", [{"question": {}, "answer": "b"}], "field 'question' is dict; right is a text or a number"),
    ("exact", [{"question": "a", "answer": True}], "field 'answer' is bool"),
    ("exact", [{"question": c, "answer": "b", "id": 7} for c in "ab"], "id '7' appears twice"),
    ("number", [{"question": "a", "answer": "three"}], "answer 'three' is no number answer; right is e.g."),
    ("choice", [{"question": "a", "answer": "Paris"}], "is no choice answer; right is one letter"),
    ("'regex:#(\\d+)'", [{"question": "a", "answer": "x"}], "a text the pattern finds"),
    ("exact", [{"question": f" TEST  country {i}?", "answer": "b"} for i in range(3)], "3 questions are in validation"),
]


@pytest.mark.parametrize(("kind", "validation", "says"), BAD_ITEMS)
def test_bad_items(kind: str, validation: object, says: str, home: Home, tmp_path: Path) -> None:
    test = [{"question": f"test country {i}?", "answer": {"exact": "b", "choice": "B"}.get(kind, 1)} for i in range(5)]
    source = write(tmp_path / "own", Q.format(kind), validation=validation, test=test)
    assert says in refused(home, source)


@pytest.mark.parametrize("name", ["benchmark.yaml", "validation.jsonl", "test.jsonl"])
def test_a_missing_file_is_named(name: str, home: Home, tmp_path: Path) -> None:
    source = write(tmp_path / "own")
    (source / name).unlink()
    assert f"{source / name}: missing" in refused(home, source)


def test_text_that_is_not_utf8_is_named(home: Home, tmp_path: Path) -> None:
    source = write(tmp_path / "own")
    (source / "test.jsonl").write_bytes(b'{"question": "\xff"}')
    assert "test.jsonl:1: not UTF-8" in refused(home, source)


def test_changed_items_are_noticed(home: Home) -> None:
    folder = resolve_benchmark("wordproblems", home, None)
    folder.validation.write_text(folder.validation.read_text().replace("7", "8"))
    with pytest.raises(InvalidRequestError, match="changed since it was made"):
        select_validation(folder)


def test_check_reads_without_writing(tmp_path: Path) -> None:
    assert resolve.check_benchmark("wordproblems", Settings()).name == "wordproblems"
    assert resolve.check_benchmark(str(write(tmp_path / "own")), Settings()).name == "capitals"


def test_a_folder_at_an_address_is_fetched_checked_and_copied(home: Home, tmp_path: Path) -> None:
    """Of what lies there only the benchmark's own files come; one that is changed is another benchmark."""
    own = write(tmp_path / "store" / "own")
    (own / "other.bin").write_bytes(b"x")
    url = f"file://{own}"
    settings = Settings(FT_FILE_PATH=home.root)
    assert resolve.check_benchmark(url, settings).name == "capitals"
    there = resolve_benchmark(url, home, None, settings)
    assert there.root == resolve_benchmark(str(own), home, None).root
    assert not [*home.benchmarks.rglob("other.bin")]
    assert resolve.family_members(url) == ()
    (own / "benchmark.yaml").write_text(YAML.replace("Name the", "Say the"))
    assert resolve_benchmark(url, home, None, settings).root != there.root
    (own / "test.jsonl").unlink()
    with pytest.raises(InvalidRequestError, match=r"test\.jsonl"):
        resolve.check_benchmark(url, settings)


def test_a_folder_is_a_key(home: Home) -> None:
    folder = resolve_benchmark("wordproblems", home, None)
    assert {folder: 1}[resolve_benchmark("wordproblems", home, None)] == 1
