"""The grammar of commands: what parses, and what is refused with what is right."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneloop.core.commands import COMMANDS, NotACommandError, parse, table
from tuneloop.core.directive import (
    Approve,
    Avoid,
    Bound,
    Command,
    Delete,
    Extend,
    Finish,
    Focus,
    Keep,
    NewRun,
    Pause,
    Question,
    Reply,
    Revoke,
    Sources,
    Use,
)
from tuneloop.core.errors import InvalidRequestError


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("use lora_rank=32", Use(parameter="lora_rank", value=32)),
        ("/use learning_rate = 1e-4 always", Use(parameter="learning_rate", value=1e-4, always=True)),
        ("USE packing=true", Use(parameter="packing", value=True)),
        ("use lora_target=q_proj,v_proj", Use(parameter="lora_target", value="q_proj,v_proj")),
        ("avoid optim=adafactor", Avoid(parameter="optim", value="adafactor")),
        ("limit num_train_epochs<=3", Bound(parameter="num_train_epochs", at_most=3)),
        ("limit lora_rank >= 8", Bound(parameter="lora_rank", at_least=8)),
        ("limit 8<=lora_rank<=32", Bound(parameter="lora_rank", at_least=8, at_most=32)),
        ("limit 8≤lora_rank", Bound(parameter="lora_rank", at_least=8)),
        ("keep template", Keep(parameter="template")),
        ("sources only a, b | not c/d.jsonl", Sources(only=("a", "b"), never=("c/d.jsonl",))),
        ("sources not c", Sources(never=("c",))),
        ('focus "longer solutions"', Focus(text="longer solutions")),
        ("more 2h", Extend(seconds=7200)),
        ("more 90 minutes", Extend(seconds=5400)),
        ("more -3 experiments", Extend(experiments=-3)),
        ("more 2M tokens", Extend(tokens=2_000_000)),
        ("more $5", Extend(money=5)),
        ("more -$0.50", Extend(money=-0.5)),
        ("more 1.5 GPU-hours", Extend(gpu_hours=1.5)),
        ("more 2 gpu hours", Extend(gpu_hours=2)),
        ("finish.", Finish()),
        ("pause", Pause()),
        ("yes", Reply(yes=True)),
        ("no, too expensive", Reply(yes=False, reason="too expensive")),
        ("ask never", Approve(at="never")),
        ("delete 3, 2", Delete(experiments=(2, 3))),
        ("delete experiments 2 3", Delete(experiments=(2, 3))),
        ("revoke 4", Revoke(ids=("4",))),
        ("why 3", Question(topic="why", experiment=3)),
        ("time", Question(topic="time")),
        ("run benchmark=b base-model=m --loop-n=2", NewRun(options={"benchmark": "b", "base_model": "m", "loop_n": "2"})),
    ],
)  # fmt: skip
def test_commands_are_parsed(text: str, command: Command) -> None:
    assert parse(text) == command


@pytest.mark.parametrize(
    "text",
    [
        "use", "use lora_rank", "use =3", "avoid optim", "limit lora_rank", "limit 9<=lora_rank<=8", "limit 8<=r>=3",
        "keep", "keep the template", "sources", "sources a", "sources only", "focus", 'focus ""', "more", "more 0h",
        "more cake", "more 2", "more 1.5 experiments", "finish now", "ask", "ask sometimes", "delete", "delete all",
        "publish", "revoke", "revoke that", "why not", "status please", "yes but use rank 8", "run", "run tiny",
        "yes how long will it take?", "yes wait", "yes not sure", "no problem, go ahead",
        "run benchmark='x",
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused_with_what_is_right(text: str) -> None:
    name = text.split(maxsplit=1)[0]
    with pytest.raises(InvalidRequestError, match=f"^{name}: .*right is `{name}") as caught:
        parse(text)
    assert not isinstance(caught.value, NotACommandError)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "/", "hello", "please finish", "stop after this one", "/nonsense 3"])
def test_other_text_is_no_command(text: str) -> None:
    with pytest.raises(NotACommandError):
        parse(text)


@given(st.text(max_size=60))
def test_any_text_is_a_command_or_refused(text: str) -> None:
    for given_text in (text, *(f"{spec.name} {text}" for spec in COMMANDS)):
        try:
            parse(given_text)
        except InvalidRequestError as e:
            assert "right is" in str(e)


def test_every_example_is_a_command_and_listed() -> None:
    for spec in COMMANDS:
        parse(spec.example)
        assert spec.usage in table()
    names = [name for spec in COMMANDS for name in (spec.name, *spec.aliases)]
    assert len(names) == len(set(names))
