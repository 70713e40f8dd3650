import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneloop.tools.config.config_text import (
    ConfigError,
    UnreadableError,
    dump_config,
    parse_config,
    read_object,
)

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)
SCALARS = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | TEXTS
NAMES = st.from_regex(r"[a-z][a-z_]{2,20}", fullmatch=True).filter(lambda n: n not in {"true", "yes", "off", "null"})


def test_numbers_as_the_engine_reads_them() -> None:
    values = parse_config("a: 1e-4\nb: 1.0e-4\nc: 3\nd: '1e-4'\ne: 2024-01-01\nf: no\ng: \"no\"").values
    assert values == {"a": 1e-4, "b": 1e-4, "c": 3, "d": "1e-4", "e": "2024-01-01", "f": False, "g": "no"}


def test_lines() -> None:
    assert parse_config("# top\na: 1\n\nb:\n  - 2\nc: 3").lines == {"a": 2, "b": 4, "c": 6}


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("a: 1\nb: [1,", 2, "YAML"),
        ("a: 1\nb: [1, 2\nc: 3\n", 2, "lacks a comma or its ]"),
        ("a: 1\nb: {c: 1\nd: 3\n", 2, "lacks a comma or its }"),
        ("a: 1\nb: 'x\nc: 3\n", 2, "the quote is never closed"),
        ("a: 1\nb:2\nc: 3\n", 2, "a colon and a space behind the key"),
        ("a:1\nb: 2\n", 1, "YAML"),
        ("a = 1\nb: 2\n", 1, "YAML"),
        ("a: 1\nb: one: two\n", 2, "YAML"),
        ("a: 1\nb = 2\nc: 3\n", 2, "a colon and a space behind the key"),
        ("a: 1\n b: 2", 2, "YAML"),
        ("a:\t1\n\t- x", 1, "YAML"),
        ("- a\n- b", 1, "mapping"),
        ("", 1, "empty"),
        ("just text", 1, "mapping"),
        ("a: 1\nb: 2\na: 3", 3, "stands here and on line 1"),
        ("a: &x [1]\nb: *x", 2, "alias"),
        ("a: !!python/object:os.system x", 1, "YAML"),
        ("1: x", 1, "name"),
        ("no: x", 1, "name"),
        ("a: 0x" + "f" * 3000, 1, "too large"),
        ("a: " + "[" * 20000, 1, "nested"),
        ("a: \0", 1, "YAML"),
        ("a: " + "x" * 70000, 1, "characters"),
        ("a: 1\n---\nb: 2", 2, "YAML"),
        ('a: 1\nb: "x\\0"', 2, "holds a NUL"),
        ('a: {b: ["\\0"]}', 1, "holds a NUL"),
    ],
)
def test_what_cannot_be_read(text: str, line: int, word: str) -> None:
    with pytest.raises(ConfigError) as e:
        parse_config(text)
    assert word in e.value.text
    assert e.value.line == line


@pytest.mark.parametrize(
    "line", ["lora_rank:8", "lora_rank = 8", "--lora_rank 8", "  lora_rank: 8", "lora_rank: [8", "lora_rank: '8"]
)
def test_the_key_of_a_broken_line_is_named(line: str) -> None:
    with pytest.raises(ConfigError) as e:
        parse_config(f"stage: sft\n{line}\nseed: 1\n")
    assert (e.value.line, e.value.key) == (2, "lora_rank")


@pytest.mark.parametrize("path", ["/dev/zero", "pipe"])
def test_a_file_without_end_is_not_read(path: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnreadableError, match="no plain file"):
        read_object(tmp_path / path)


@given(st.dictionaries(NAMES, SCALARS | st.lists(SCALARS, max_size=3), min_size=1, max_size=6))
def test_what_is_written_is_read_back(values: dict[str, object]) -> None:
    text = dump_config(values)
    assert parse_config(text).values == values
    assert list(parse_config(text).lines) == sorted(values)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        assert isinstance(parse_config(text).values, dict)
    except ConfigError as e:
        assert e.line >= 1
        assert e.text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_text_that_looks_like_a_number_stays_text(number: float) -> None:
    text = f"{number:e}".replace(".", "") if number % 2 else f"{number:e}"
    back = parse_config(dump_config({"x": text, "y": number})).values
    assert back["x"] == text
    assert math.isclose(back["y"], number)
