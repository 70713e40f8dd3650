"""What a data script asks with: in order, each thing once, and a row without an answer is no error."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.chat_server import Chat, Say, chat_server, text_of
from tuneloop.tools.data_script.run import GONE
from tuneloop.tools.jobs.progress import told_progress
from tuneloop.tools.llm_proxy.batch import CLIENT

HEAD = "import dataclasses, json\nfrom tuneloop_models import ask_many, allowance\n"
TAIL = "\njson.dump([dataclasses.asdict(a) for a in answers], open('answers.json', 'w'))\n"
Broken = tuple[int, Any]


def broken(status: int, code: str = "boom", text: str = "boom") -> Broken:
    return status, {"error": {"message": text, "code": code}}


def ran(place: Path, chat: Chat, code: str, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    """The script `code`, which leaves `answers`; both streams together."""
    place.mkdir(exist_ok=True)
    (place / "script.py").write_text(HEAD + code + TAIL)
    told = {
        "PYTHONPATH": str(CLIENT.parent),
        "OPENAI_BASE_URL": chat.url,
        "OPENAI_API_KEY": "token",
        "STRONG_MODEL_POOL": '["big"]',
        "WEAK_MODEL_POOL": '["small"]',
        "FT_API_MAX_WORKERS": "4",
        "NO_PROXY": "127.0.0.1",
        **env,
    }
    p = subprocess.run(
        [sys.executable, "-P", str(place / "script.py"), *argv],
        env=told,
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    (place / "log.txt").write_text(p.stdout)
    return p


def asked(place: Path, say: Say, code: str, *argv: str, **env: str) -> tuple[list[dict[str, Any]], Chat]:
    """The answers, when the script ended well."""
    with chat_server(say, key="token") as chat:
        p = ran(place, chat, code, *argv, **env)
    assert p.returncode == 0, p.stdout
    return json.loads((place / "answers.json").read_text()), chat


def test_answers_come_in_the_order_of_the_prompts(tmp_path: Path) -> None:
    code = "answers = ask_many([f'q{i}' for i in range(30)], system='Be brief.', temperature=0.5, max_tokens=9)"
    found, chat = asked(tmp_path, lambda a: f"re {text_of(a)}", code)
    assert [row["text"] for row in found] == [f"re q{i}" for i in range(30)]
    assert {row["why"] for row in found} == {""}
    one = chat.seen[0]
    assert (one["model"], one["temperature"], one["max_tokens"], one["sample"]) == ("big", 0.5, 9, 0)
    assert one["messages"][0] == {"role": "system", "content": "Be brief."}
    told = told_progress(tmp_path / "log.txt")
    assert told == {"done": 30, "total": 30, "unit": "answers", "note": ""}


def test_a_pool_shares_prompts_out_by_what_they_say(tmp_path: Path) -> None:
    code = "answers = ask_many([f'q{i}' for i in %s], pool='weak')"
    pool = {"WEAK_MODEL_POOL": '["a", "b", "c"]'}
    _, first = asked(tmp_path / "1", lambda a: "yes", code % "range(60)", **pool)
    _, again = asked(tmp_path / "2", lambda a: "yes", code % "range(59, 20, -1)", **pool)
    chosen = {text_of(one): one["model"] for one in first.seen}
    assert min(Counter(chosen.values()).values()) > 10
    assert all(chosen[text_of(one)] == one["model"] for one in again.seen)


def test_the_same_prompt_again_is_drawn_again(tmp_path: Path) -> None:
    code = "answers = ask_many(['q', 'q', 'other', 'q']) + ask_many(['q'], sample=7)"
    _, chat = asked(tmp_path, lambda a: "yes", code)
    drawn = [one["sample"] for one in chat.seen if text_of(one) == "q"]
    assert len(set(drawn)) == 4
    assert [one["sample"] for one in chat.seen if text_of(one) == "other"] == [0]


def test_json_is_read_checked_and_drawn_again(tmp_path: Path) -> None:
    def say(a: dict[str, Any]) -> str:
        if text_of(a).startswith("never"):
            return '{"steps": "one", "answer": "two"}'
        if text_of(a).startswith("twice") and a["sample"] == 0:
            return "I would say 7."
        return '<think>{"no": 1}</think>Here:\n```json\n{"steps": "a {b}", "answer": 7, "more": null}\n```'

    code = "answers = ask_many(['once', 'twice', 'never'], fields={'steps': str, 'answer': int})"
    found, chat = asked(tmp_path, say, code)
    assert [row["value"] for row in found] == [{"steps": "a {b}", "answer": 7, "more": None}] * 2 + [None]
    assert found[2]["text"] is None
    assert found[2]["why"] == "no JSON object with steps and answer"
    tries = Counter(text_of(one).split()[0] for one in chat.seen)
    assert tries == {"once": 1, "twice": 2, "never": 2}
    assert "steps (text), answer (whole number)" in text_of(chat.seen[0])


def test_only_what_is_accepted_counts(tmp_path: Path) -> None:
    code = (
        "golds = ['0', '2', 'x']\n"
        "answers = ask_many(['a', 'b', 'c'], accept=lambda i, a: a.text == golds[i], tries=4, temperature=1)"
    )
    found, chat = asked(tmp_path, lambda a: str(a["sample"]), code)
    assert [row["text"] for row in found] == ["0", "2", None]
    assert found[2]["why"] == "no answer was accepted"
    assert Counter(text_of(one) for one in chat.seen) == {"a": 1, "b": 3, "c": 4}


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_what_was_cut_is_no_answer(tmp_path: Path, finish: str) -> None:
    choice = {"finish_reason": finish, "message": {"content": "and then"}}
    found, _ = asked(tmp_path, lambda a: (200, {"choices": [choice]}), "answers = ask_many(['q'])")
    assert (found[0]["text"], found[0]["why"]) == (None, f"the answer was cut ({finish})")


def test_what_a_model_thinks_is_told_apart(tmp_path: Path) -> None:
    message = {"content": "7", "reasoning_content": "3 + 4"}
    found, _ = asked(tmp_path, lambda a: (200, {"choices": [{"message": message}]}), "answers = ask_many(['q'])")
    assert (found[0]["text"], found[0]["thought"]) == ("7", "3 + 4")


@pytest.mark.parametrize(
    "strange",
    [
        {}, [], None, {"choices": []}, {"choices": [{"message": None}]}, {"choices": [{"message": {"content": 7}}]},
        {"choices": [{"message": {"content": "  "}}]},
    ],
)  # fmt: skip
def test_a_strange_answer_is_none(tmp_path: Path, strange: Any) -> None:
    found, _ = asked(
        tmp_path, lambda a: (200, strange) if text_of(a) == "odd" else "yes", "answers = ask_many(['a', 'odd', 'b'])"
    )
    assert [row["text"] for row in found] == ["yes", None, "yes"]
    assert found[1]["why"]


def test_a_refused_request_costs_one_row(tmp_path: Path) -> None:
    def say(a: dict[str, Any]) -> str | Broken:
        return broken(400, "content_filter", "not this") if text_of(a) == "q1" else "yes"

    found, chat = asked(tmp_path, say, "answers = ask_many([f'q{i}' for i in range(4)])")
    assert [row["text"] for row in found] == ["yes", None, "yes", "yes"]
    assert "not this" in found[1]["why"]
    assert len(chat.seen) == 4


def test_another_model_of_the_pool_stands_in(tmp_path: Path) -> None:
    def say(a: dict[str, Any]) -> str | Broken:
        told: dict[str, str | Broken] = {"a": broken(503), "b": broken(404, "model_not_found"), "c": "c"}
        return told[a["model"]]

    code = "answers = ask_many(['q1', 'q2', 'q3', 'q4'])"
    found, _ = asked(tmp_path, say, code, STRONG_MODEL_POOL='["a", "b", "c"]')
    assert [row["text"] for row in found] == ["c"] * 4


def test_a_provider_that_stumbles_is_asked_again(tmp_path: Path) -> None:
    answers: list[Any] = [broken(429), broken(503, "interrupted"), broken(503, "interrupted"), "at last"]
    found, chat = asked(tmp_path, lambda a: answers.pop(0), "answers = ask_many(['q'])")
    assert [row["text"] for row in found] == ["at last"]
    assert len(chat.seen) == 4


def test_at_the_limit_there_is_what_there_is(tmp_path: Path) -> None:
    spent = broken(403, "limit_reached", "this job may use 3 requests in all, 3 are used and this would want 1")
    answers: list[Any] = ["yes"] * 3
    code = "answers = ask_many([f'q{i}' for i in range(40)])"
    found, _ = asked(tmp_path, lambda a: answers.pop(0) if answers else spent, code)
    assert [row["text"] for row in found].count("yes") == 3
    assert all("may use 3 requests" in row["why"] for row in found if row["text"] is None)
    log = (tmp_path / "log.txt").read_text()
    assert log.count("may use 3 requests") == 1
    assert "models: 40 asked, 3 answered, 0 of them paid for before" in log


def test_beyond_the_limit_what_was_kept_is_still_there(tmp_path: Path) -> None:
    """The proxy answers from what it keeps whatever was used."""
    spent = broken(403, "limit_reached", "enough")
    code = "answers = ask_many([f'q{i}' for i in range(40)])"
    found, _ = asked(tmp_path, lambda a: "kept" if int(text_of(a)[1:]) >= 30 else spent, code)
    assert [row["text"] for row in found[30:]] == ["kept"] * 10


@pytest.mark.parametrize(
    ("answer", "most"),
    [(broken(502, "upstream_refused_key", "the key"), 4), (broken(403, "model_not_allowed", "the model"), 4)],
)
def test_an_endpoint_at_fault_ends_the_script_with_one_line(tmp_path: Path, answer: Broken, most: int) -> None:
    with chat_server(lambda a: answer) as chat:
        p = ran(tmp_path, chat, "answers = ask_many([f'q{i}' for i in range(100)])")
    assert p.returncode == GONE
    assert p.stdout.splitlines()[-1].startswith("models: the ")
    assert p.stdout.count("models: ") == 1
    assert len(chat.seen) <= most
    assert not (tmp_path / "answers.json").exists()


def test_an_endpoint_that_always_fails_is_left_alone(tmp_path: Path) -> None:
    with chat_server(lambda a: broken(500)) as chat:
        few = ran(tmp_path / "few", chat, "answers = ask_many(['q1', 'q2'])")
        assert (few.returncode, len(chat.seen)) == (GONE, 4), few.stdout
        many = ran(tmp_path / "many", chat, "answers = ask_many([f'q{i}' for i in range(500)])")
    assert many.returncode == GONE
    assert len(chat.seen) <= 4 + 2 * (20 + 4)


def test_failing_prompt_does_not_stop_the_others(tmp_path: Path) -> None:
    def say(a: dict[str, Any]) -> str | Broken:
        return broken(500) if text_of(a) == "q7" else "yes"

    code = "answers = ask_many(['q0'])\nfor i in range(1, 10): answers += ask_many([f'q{i}'])"
    found, _ = asked(tmp_path, say, code)
    assert [row["text"] for row in found] == ["yes"] * 7 + [None] + ["yes"] * 2


def test_a_request_that_is_always_refused_is_not_made_for_ever(tmp_path: Path) -> None:
    found, chat = asked(tmp_path, lambda a: broken(400, "bad", "no such field"), "answers = ask_many(['q'] * 300)")
    assert len(chat.seen) <= 24
    assert all("no such field" in row["why"] for row in found)


def test_fields_that_a_model_does_not_take(tmp_path: Path) -> None:
    def say(a: dict[str, Any]) -> str | Broken:
        if "temperature" in a:
            return broken(400, "unsupported_value", "Unsupported value: 'temperature' does not support 0.5")
        if "max_tokens" in a:
            return broken(400, "unsupported_parameter", "'max_tokens' is not supported; use 'max_completion_tokens'.")
        return "yes"

    code = "answers = ask_many([f'q{i}' for i in range(20)], temperature=0.5, max_tokens=5)"
    found, chat = asked(tmp_path, say, code)
    assert {row["text"] for row in found} == {"yes"}
    assert chat.seen[-1]["max_completion_tokens"] == 5
    assert "models: the endpoint does not take temperature; it was left out" in (tmp_path / "log.txt").read_text()


def test_a_try_asks_a_few(tmp_path: Path) -> None:
    code = "answers = []\nfor n in range(9): answers += ask_many([f'{n} {i}' for i in range(30)])"
    found, chat = asked(tmp_path, lambda a: "yes", code, "--debug")
    assert len(chat.seen) == 50
    assert [row["text"] for row in found[:30]] == ["yes"] * 10 + [None] * 20
    assert "--debug asks 10" in found[10]["why"]
    _, all_of_them = asked(tmp_path, lambda a: "yes", code)
    assert len(all_of_them.seen) == 270


def test_a_mistake_of_the_script_is_seen_at_once(tmp_path: Path) -> None:
    with chat_server(lambda a: "yes") as chat:
        p = ran(tmp_path, chat, "answers = ask_many([f'q{i}' for i in range(300)], accept=lambda i, a: a.txt)")
        wrong = ran(tmp_path, chat, "answers = ask_many(['q'], pool='cheap')")
        none = ran(tmp_path, chat, "answers = ask_many(['q'])", STRONG_MODEL_POOL="[]", WEAK_MODEL_POOL="[]")
    assert "AttributeError" in p.stdout
    assert len(chat.seen) < 300, "the others were not asked"
    assert "right is strong or weak" in wrong.stdout
    assert "this run names no models" in none.stdout
    assert {p.returncode, wrong.returncode, none.returncode} == {1}


def test_missing_socket_is_one_error(tmp_path: Path) -> None:
    code = "import tuneloop_models.endpoint as d\nd.PATIENCE = 0.0\nanswers = ask_many(['q'] * 9)"
    p = ran(tmp_path, Chat(lambda a: ""), code, OPENAI_BASE_URL="http://127.0.0.1:9/v1")
    assert p.returncode == GONE
    assert "the model proxy does not answer" in p.stdout


def test_nothing_to_ask(tmp_path: Path) -> None:
    found, _ = asked(tmp_path, lambda a: "", "answers = ask_many([])")
    assert found == []


def test_it_runs_with_every_python_that_an_engine_may_have() -> None:
    """Standard library, and nothing of tuneloop."""
    code = "import sys, tuneloop_models; print(*{name.split('.')[0] for name in sys.modules} - {'__main__'})"
    p = subprocess.run(
        [sys.executable, "-S", "-c", code], env={"PYTHONPATH": str(CLIENT.parent)}, capture_output=True, text=True
    )
    assert set(p.stdout.split()) - sys.stdlib_module_names == {"tuneloop_models"}, p.stderr
