"""Tokens are counted as the engine counts them, template included, and cut as it cuts them."""

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneloop.tools.config.installed import installed_catalog
from tuneloop.tools.data_gate.chat_template import ChatTemplate, TemplatePart, read_chat_template
from tuneloop.tools.data_gate.lengths import TokenCounter, infer_seqlen
from tuneloop.tools.data_gate.records import TrainingRow
from tuneloop.tools.engines import Engine

SOURCE = """
register_template(
    name="chat",
    format_user=StringFormatter(slots=["<u>{{content}}</u>", {"token": "<a>"}]),
    format_assistant=StringFormatter(slots=["{{content}}", {"eos_token"}]),
    format_prefix=EmptyFormatter(slots=[{"bos_token"}]),
    default_system="Be kind.",
    stop_words=["</u>"],
)
register_template(name="bare", efficient_eos=True)
"""
TEMPLATES = ("chatml", "default", "llama3", "vicuna", "qwen", "alpaca", "gemma", "mistral", "llama2")
ASK = """
import json, sys
from transformers import AutoTokenizer
from llamafactory.data.template import TEMPLATES
rows, found = json.load(open(sys.argv[2])), {}
for name in sys.argv[3:]:
    tokenizer, template = AutoTokenizer.from_pretrained(sys.argv[1]), TEMPLATES[name]
    template.fix_special_tokens(tokenizer)
    found[name] = [
        sum(len(a) + len(b) for a, b in template.encode_multiturn(tokenizer, turns, None, None)) + template.efficient_eos
        for turns in rows
    ]
print("FOUND", json.dumps(found))
"""
ROWS = [("What is 3 + 4?", "3 + 4 = 7\n\\boxed{7}"), ("Tom has 12 coins.", "So?", "He gets 5.", "17")]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "template.py").write_text(SOURCE)
    return tmp_path / "template.py"


def test_a_template_is_read(source: Path) -> None:
    chat = read_chat_template(source, "chat")
    assert chat == ChatTemplate(
        name="chat",
        user=TemplatePart("<u>", "</u><a>"),
        assistant=TemplatePart(tokens=1),
        prefix=TemplatePart(tokens=1),
        default_system="Be kind.",
        stops=("</u>",),
    )
    assert chat.texts(TrainingRow(("q",), ("a",), {})) == ["Be kind.<u>q</u><a>", "a"]
    assert chat.texts(TrainingRow(("q", "b", "r"), ("a",), {}, "S")) == ["S<u>q</u><a>", "b", "<u>r</u><a>", "a"]
    assert chat.texts(TrainingRow(("q",), ("a", "b"), {}, "S")) == ["S<u>q</u><a>", "a", "S<u>q</u><a>", "b"]
    assert chat.added(2, "") == 3
    bare = read_chat_template(source, "bare")
    assert bare is not None
    assert (bare.extra, bare.assistant.tokens, bare.added(1, "")) == (1, 0, 1)
    without = read_chat_template(source, "chat", bos=False)
    assert without is not None
    assert without.added(1, "") == 1
    assert read_chat_template(source, "other") is None


@given(st.integers(0, 500), st.integers(0, 500), st.integers(1, 500))
def test_what_is_kept_fits(asked: int, answered: int, room: int) -> None:
    kept = infer_seqlen(asked, answered, room)
    assert 0 <= kept[0] <= asked
    assert 0 <= kept[1] <= answered
    assert sum(kept) <= max(room, 0)
    if asked + answered <= room:
        assert kept == (asked, answered)


def test_cut_answers_are_counted(tiny: Path) -> None:
    with TokenCounter(tiny / "tokenizer.json", ChatTemplate(), 20) as counter:
        counter.add(
            [
                TrainingRow(("+" * 50,), ("7",), {}),
                TrainingRow(("7",), ("+" * 50,), {}),
                TrainingRow(("7",), ("7",), {}),
            ]
        )
        found = counter.finish()
    assert (found.cut, found.unanswered) == (2, 1)
    assert found.lost == found.total - 2 - 40
    assert found.longest == found.p99 == 51


def test_lengths_are_the_engine_s(llamafactory: Engine, tiny: Path, tmp_path: Path) -> None:
    chats = [[{"role": ("user", "assistant")[i % 2], "content": t} for i, t in enumerate(row)] for row in ROWS]
    (tmp_path / "rows.json").write_text(json.dumps(chats))
    asked = [str(llamafactory.python), "-c", ASK, str(tiny), str(tmp_path / "rows.json"), *TEMPLATES]
    done = subprocess.run(asked, capture_output=True, text=True, check=True, cwd=tmp_path)
    wanted = json.loads(done.stdout.rpartition("FOUND ")[2])
    source = installed_catalog(llamafactory).factory / "data/template.py"
    for name in TEMPLATES:
        wrapping = read_chat_template(source, name, bos=False)
        assert wrapping is not None
        with TokenCounter(tiny / "tokenizer.json", wrapping, None) as counter:
            counter.add([TrainingRow(row[:-1], row[-1:], {}) for row in ROWS])
            counter.finish()
        assert list(counter.lengths) == wanted[name], name
