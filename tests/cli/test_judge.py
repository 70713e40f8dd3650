"""`tuneloop judge check` on the labelled replies that come with the project, before judges whose words are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.chat_server import chat_server, text_of
from tests.stand_in_engine import stand_in
from tuneloop.cli.main import cli
from tuneloop.tools.scoring.llm_judge import judge_prompt

LABELLED = Path(__file__).parents[2] / "examples" / "judge" / "labelled.jsonl"
ROWS = [json.loads(line) for line in LABELLED.read_text().splitlines()]
KNOWN = {judge_prompt(row["question"], row["answer"], row["reply"]): row["correct"] for row in ROWS}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = stand_in(tmp_path)
    monkeypatch.setattr("tuneloop.tools.evaluation.standalone.run_tools.ensure_engine", lambda *_: made)
    monkeypatch.setenv("FT_Coder_CoSTEER_env_type", "process")
    monkeypatch.chdir(tmp_path)


def check(file: Path, **env: str) -> Result:
    return CliRunner().invoke(cli, ["judge", "check", str(file), "--json"], env=env)


def measured(say: Any) -> dict[str, Any]:
    with chat_server(say) as chat:
        result = check(LABELLED, FT_JUDGE_MODEL="j", FT_JUDGE_API_BASE=chat.url)
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


def said(asked: dict[str, Any], right: bool) -> str:
    code = text_of(asked).split("VERDICT ")[-1][:8]
    return f"It says something.\nVERDICT {code}: {'CORRECT' if right else 'INCORRECT'}"


def test_judges_whose_words_are_known() -> None:
    right = sum(row["correct"] for row in ROWS)
    wise = measured(lambda asked: said(asked, KNOWN[text_of(asked)]))
    assert (wise["n"], wise["share"], wise["kappa"]) == (len(ROWS), 100, 1)
    kind = measured(lambda asked: said(asked, True))
    assert (kind["false_correct"], kind["kappa"]) == (len(ROWS) - right, 0)
    contrary = measured(lambda asked: said(asked, not KNOWN[text_of(asked)]))
    assert contrary["share"] == 0
    assert contrary["kappa"] < -0.9
    vague = measured(lambda _: "Answer: A, which is CORRECT")
    assert (vague["unknown"], vague["false_correct"], vague["false_incorrect"]) == (len(ROWS), 0, right)


def test_judge_that_echoes_its_prompt_calls_no_reply_right() -> None:
    """The last words of the reply, as a weak model gives them back."""

    def echo(asked: dict[str, Any]) -> str:
        text = text_of(asked)
        reply = text[text.index("\nReply:\n") + 8 :].split("\n\nSay in one")[0]
        return "\n".join(line.removeprefix("| ") for line in reply.splitlines())

    assert measured(echo)["unknown"] == len(ROWS)


def test_what_is_wrong_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    for text, word in (
        ("", "none in it"),
        ('{"question": "q", "answer": "a", "reply": "r"}\n', "Field required"),
        ('{"question": "q", "answer": "a", "reply": "r", "correct": "yes"}\n', "valid boolean"),
        ("{\n", "not JSON"),
    ):
        file.write_text(text)
        result = check(file, FT_JUDGE_MODEL="j", FT_JUDGE_API_KEY="k")
        assert result.exit_code == 2
        assert word in result.stderr
        assert "right is JSON Lines with question" in result.stderr
    nobody = check(LABELLED)
    assert (nobody.exit_code, "no judge: set FT_JUDGE_MODEL" in nobody.stderr) == (2, True)
