"""The job that asks models: bounded, told apart, and nothing paid twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.chat_server import Chat, Say, chat_server, text_of
from tests.waiting import until
from tuneloop.tools.llm_proxy.batch import SCRIPT

TOKEN = "job-token"


def job(place: Path, count: int = 4, *, spare: tuple[str, ...] = (), **body: Any) -> Path:
    """A job of `count` questions."""
    out = place / "out"
    out.mkdir(parents=True, exist_ok=True)
    rows = [
        {
            "id": f"q{i}",
            "key": f"k{i}",
            "path": "chat/completions",
            "body": {"model": "m", "messages": [{"role": "user", "content": f"q{i}"}], "max_tokens": 8, **body},
            "spare": spare,
        }
        for i in range(count)
    ]
    (place / "requests.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = {"out": str(out), "workers": 2, "requests": str(place / "requests.jsonl")}
    (place / "job.json").write_text(json.dumps(told))
    return place / "job.json"


def start(file: Path, chat: Chat) -> subprocess.Popen[str]:
    env = {"OPENAI_BASE_URL": chat.url, "OPENAI_API_KEY": TOKEN, "NO_PROXY": "127.0.0.1"}
    return subprocess.Popen(
        [sys.executable, "-s", str(SCRIPT), str(file)],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(file: Path, chat: Chat) -> tuple[int, str]:
    p = start(file, chat)
    out, err = p.communicate(timeout=60)
    return p.returncode, out + err


def results(file: Path) -> dict[str, Any]:
    found = json.loads((file.parent / "out" / "results.json").read_text())["results"]
    return {row["id"]: row for row in found}


def test_every_question_is_answered_once(tmp_path: Path) -> None:
    with chat_server(lambda asked: f"re {text_of(asked)}", key=TOKEN) as chat:
        file = job(tmp_path)
        code, said = run(file, chat)
        assert code == 0, said
        assert [row["text"] for row in results(file).values()] == [f"re q{i}" for i in range(4)]
        assert json.loads(said.splitlines()[-1]) == {"done": 4, "total": 4, "unit": "answers"}
        assert run(file, chat)[0] == 0
    assert len(chat.seen) == 4, "what was answered is not asked again"


def test_a_kill_pays_nothing_twice(tmp_path: Path) -> None:
    gate = threading.Event()

    def say(asked: dict[str, Any]) -> str:
        if text_of(asked) in ("q2", "q3"):
            gate.wait(30)
        return "yes"

    with chat_server(say) as chat:
        file = job(tmp_path)
        p = start(file, chat)
        kept = tmp_path / "out" / "answers.jsonl"
        until(lambda: kept.is_file() and kept.read_bytes().count(b"\n") == 2 and len(chat.seen) == 4)
        p.send_signal(signal.SIGKILL)
        p.communicate()
        with kept.open("ab") as f:
            f.write(b'{"key": "k2", "te')  # torn by the kill
        gate.set()
        chat.seen.clear()
        assert run(file, chat)[0] == 0
        assert sorted(chat.prompts) == ["q2", "q3"]
        assert all(row["text"] == "yes" for row in results(file).values())
        assert run(file, chat)[0] == 0
        assert len(chat.seen) == 2, "the torn line was ended before the next one"


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        ((502, {"error": {"message": "the key was refused", "code": "upstream_refused_key"}}), "the key was refused"),
        ((403, {"error": {"message": "not that model", "code": "model_not_allowed"}}), "not that model"),
        ((404, {"error": {"message": "no such model", "code": "x"}}), "no such model"),
    ],
)
def test_an_endpoint_at_fault_ends_the_job_with_one_line(tmp_path: Path, answer: Any, word: str) -> None:
    with chat_server(lambda _: answer) as chat:
        code, said = run(job(tmp_path, 20), chat)
    assert code == 1
    assert [line for line in said.splitlines() if line.startswith("error: ")] == [f"error: {word}"]
    assert not (tmp_path / "out" / "results.json").exists()
    assert len(chat.seen) <= 4, "the others were not asked"


def test_an_endpoint_that_fails_is_asked_again_and_not_for_ever(tmp_path: Path) -> None:
    broken = (500, {"error": {"message": "boom", "code": "boom"}})
    answers: list[Any] = [broken, broken, "at last"]
    with chat_server(lambda _: answers.pop(0)) as chat:
        file = job(tmp_path, 1)
        assert run(file, chat)[0] == 0
        assert results(file)["q0"]["text"] == "at last"
    with chat_server(lambda _: broken) as chat:
        code, said = run(job(tmp_path / "other", 1), chat)
    assert (code, len(chat.seen)) == (1, 3)
    assert "error: boom" in said


def test_a_refused_request_is_one_without_an_answer(tmp_path: Path) -> None:
    def say(asked: dict[str, Any]) -> Any:
        if text_of(asked) == "q1":
            return 400, {"error": {"message": "content filter", "code": "content_filter"}}
        return "yes"

    with chat_server(say) as chat:
        file = job(tmp_path)
        assert run(file, chat)[0] == 0
    assert results(file)["q1"]["text"] is None
    assert "content filter" in results(file)["q1"]["why"]
    assert [results(file)[f"q{i}"]["text"] for i in (0, 2, 3)] == ["yes"] * 3


def test_when_the_allowance_is_spent_nothing_more_is_asked(tmp_path: Path) -> None:
    spent = (403, {"error": {"message": "this job may use 2 requests in all", "code": "limit_reached"}})
    answers: list[Any] = ["yes", "yes"]
    with chat_server(lambda _: answers.pop(0) if answers else spent) as chat:
        file = job(tmp_path, 30)
        code, said = run(file, chat)
        assert (code, "error: answered 2 of 30 questions: limit_reached: this job may use 2 requests" in said) == (
            1,
            True,
        )
        assert not (file.parent / "out" / "results.json").exists(), "nothing that could be taken for all answers"
        assert len(chat.seen) <= 6
        answers[:] = ["yes"] * 28
        assert run(file, chat)[0] == 0, "with more to spend it goes on where it was"
    assert [row["text"] for row in results(file).values()] == ["yes"] * 30


def picky(names: dict[str, str]) -> Say:
    """Refuses fields as newer models do."""

    def say(asked: dict[str, Any]) -> Any:
        for name, instead in names.items():
            if name in asked:
                hint = f" Use '{instead}' instead." if instead else ""
                text = f"Unsupported parameter: '{name}' is not supported with this model.{hint}"
                return 400, {"error": {"message": text, "code": "unsupported_parameter"}}
        return "yes"

    return say


def test_fields_by_another_name_and_fields_that_may_go(tmp_path: Path) -> None:
    with chat_server(picky({"max_tokens": "max_completion_tokens", "temperature": ""})) as chat:
        file = job(tmp_path, 12, spare=("temperature",), temperature=0)
        assert run(file, chat)[0] == 0
        assert {row["text"] for row in results(file).values()} == {"yes"}
    last = chat.seen[-1]
    assert last["max_completion_tokens"] == 8
    assert "temperature" not in last


def test_what_decides_the_answer_is_never_left_out(tmp_path: Path) -> None:
    with chat_server(picky({"temperature": ""})) as chat:
        file = job(tmp_path, 2, temperature=0)
        assert run(file, chat)[0] == 0
    assert all("'temperature' is not supported" in row["why"] for row in results(file).values())


def test_refused_connection_is_one_error(tmp_path: Path) -> None:
    """The proxy may be away for a while; in a test it is patience that is short."""
    file = job(tmp_path, 1)
    code = (
        f"import pathlib, sys; sys.path.insert(0, {str(SCRIPT.parent)!r}); import ask, tuneloop_models.endpoint as door;"
        f"door.PATIENCE = 0.0; sys.exit(ask.main(pathlib.Path({str(file)!r})))"
    )
    env = {**os.environ, "OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "OPENAI_API_KEY": TOKEN, "NO_PROXY": "127.0.0.1"}
    p = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert p.returncode == 1
    assert "error: the model proxy does not answer" in p.stdout
