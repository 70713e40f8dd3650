"""Small files and texts that mean something endless: each of our readers refuses them in its own words, at once."""

from __future__ import annotations

import json
import resource
import signal
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import yaml

from tuneloop.agents.policy.config_coder import last_values
from tuneloop.agents.policy.parameter_map import yaml_literal
from tuneloop.core import text
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import read_json, read_lines
from tuneloop.tools.benchmark_items.user_folder import read_declaration
from tuneloop.tools.config.config_text import ConfigError, UnreadableError, parse_config, read_object, read_value
from tuneloop.tools.config.model_card import read_header
from tuneloop.tools.data_script.static_check import check_script
from tuneloop.tools.jobs.progress import last_progress
from tuneloop.tools.raw_data.files import iter_records
from tuneloop.tools.raw_data.json_blocks import stream_blocks
from tuneloop.tools.raw_data.json_stream import StreamError, stream_rows
from tuneloop.tools.scoring import answer_matching

SECONDS, MEMORY = 20, 4 << 30
DEEP, DIGITS = 100_000, 5000
BOMBS = {
    "lists in lists": "[" * DEEP + "]" * DEEP,
    "objects in objects": '{"a":' * DEEP + "1" + "}" * DEEP,
    "too many digits": "9" * DIGITS,
    "open lists": "[" * DEEP,
    "zero bytes": "\0" * 100,
    "half a character": "\ud800",
}
LAUGHS = "[&a0 [x,x,x,x,x,x,x,x,x,x]" + "".join(f", &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12))
YAML = {
    "laughs": f"name: {LAUGHS}]\ndescription: d\n",
    "itself": "name: &a [*a]\ndescription: d\n",
    "minutes": "name: 1" + ":59" * 20_000 + "\ndescription: d\n",
    "sixteens": "name: 0x" + "f" * 20_000 + "\ndescription: d\n",
    "code": "name: !!python/object/apply:os.getcwd []\ndescription: d\n",
    "merged": "a: &a {x: 1}\nname:\n  <<: *a\n",
}
TEXTS = {
    "digits": "9" * DIGITS,
    "a fraction of digits": "9" * DIGITS + ".5",
    "a ratio of digits": "9" * DIGITS + "/3",
    "beyond a float": "1" + "0" * 400 + ".5",
    "digits of another script": "٣" * DIGITS,
    "a product": "*".join(["9" * DIGITS] * 2) + "=" + "9" * DIGITS,
    "a long sum": "1+" * 20_000 + "1=2",
    "open tags": "<answer>" * 50_000,
    "tags closed once": "</answer>" + "<answer>" * 50_000,
    "open boxes": "\\boxed{" * 20_000,
    "marks": "Answer: " * 50_000,
    "minus": "-" * 100_000,
    "commas": "," * 100_000 + "1",
}


@pytest.fixture(autouse=True)
def at_once() -> Iterator[None]:
    """Neither for ever nor with all memory."""

    def over(*_: object) -> None:
        raise TimeoutError(f"not within {SECONDS} s")

    before, handler = resource.getrlimit(resource.RLIMIT_AS), signal.signal(signal.SIGALRM, over)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, before[1]))
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, handler)
    resource.setrlimit(resource.RLIMIT_AS, before)


def header(bomb: bytes) -> bytes:
    """A safetensors file with such a header."""
    return len(bomb).to_bytes(8, "little") + bomb


Reader = Callable[[Any], Any]
# By reader: what it is given the bomb in, and the one error that its callers know.
FILES: dict[str, tuple[str, Callable[[bytes], bytes], Reader, type[Exception]]] = {
    "read_json": ("x.json", bytes, read_json, ValueError),
    "read_lines": ("x.jsonl", bytes, lambda path: list(read_lines(path)), ValueError),
    "data set, JSON": ("x.json", bytes, lambda path: list(iter_records(path)), InvalidRequestError),
    "data set, lines": ("x.jsonl", bytes, lambda path: list(iter_records(path)), InvalidRequestError),
    "data set, table": (
        "x.csv",
        lambda bomb: b"a;b\n" + bomb + b";1\n",
        lambda path: list(iter_records(path)),
        InvalidRequestError,
    ),
    "data set, Parquet": ("x.parquet", bytes, lambda path: list(iter_records(path)), InvalidRequestError),
    "gate, by rows": ("x.json", lambda bomb: b"[" + bomb + b"]", lambda path: list(stream_rows(path)), StreamError),
    "gate, by blocks": (
        "x.json",
        lambda bomb: b'[{"a":1},{"a":' + bomb + b"}]",
        lambda path: list(stream_blocks(path)),
        StreamError,
    ),
    "benchmark.yaml": ("x.yaml", lambda bomb: b"name: " + bomb, read_declaration, InvalidRequestError),
    "JSON beside a config": ("x.json", bytes, read_object, UnreadableError),
    "weights": ("x.safetensors", header, read_header, InvalidRequestError),
    "progress": ("x.txt", bytes, last_progress, ValueError),
}
SAID: dict[str, tuple[Reader, type[Exception]]] = {
    "config": (lambda bomb: parse_config(f"a: {bomb}"), ConfigError),
    "config in JSON": (lambda bomb: parse_config(f'{{"a": {bomb}}}', "json"), ConfigError),
    "override": (read_value, ConfigError),
    "last config": (last_values, ValueError),
    "cure": (yaml_literal, ValueError),
    "script": (lambda bomb: check_script(f"x = {bomb}"), SyntaxError),
}
LISTENERS: dict[str, Callable[[str], Any]] = {
    "plain_number": text.plain_number,
    "equations": text.equations,
    "stated": text.stated,
    "signs": text.signs,
    "tokens": text.tokens,
    "normalise": text.normalise,
    "same_answer": lambda said: text.same_answer(said, said),
    **{shape: partial(text.final_answer, shape=shape) for shape in ("number", "letter", "text")},
    **{f"score {kind}": partial(answer_matching.extract, kind) for kind in ("boxed", "choice", "number")},
    "gold": lambda said: answer_matching.gold("number", said),
}


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("reader", FILES)
def test_a_file_is_read_or_refused_in_the_readers_words(tmp_path, reader, bomb):
    name, wrapped, read, refusal = FILES[reader]
    (tmp_path / name).write_bytes(wrapped(BOMBS[bomb].encode("utf-8", "surrogatepass")))
    try:
        read(tmp_path / name)
    except refusal as e:
        assert len(str(e)) < 1000  # it is shown to people and models


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("reader", SAID)
def test_a_text_is_read_or_refused_in_the_readers_words(reader, bomb):
    read, refusal = SAID[reader]
    try:
        read(BOMBS[bomb])
    except refusal as e:
        assert len(str(e)) < 1000


@pytest.mark.parametrize("bomb", YAML)
def test_declared_shapes_are_bounded(tmp_path, bomb):
    (tmp_path / "benchmark.yaml").write_text(YAML[bomb])
    with pytest.raises(InvalidRequestError) as e:
        read_declaration(tmp_path / "benchmark.yaml")
    assert len(str(e.value)) < 1000
    with pytest.raises(ConfigError):
        parse_config(YAML[bomb])


@pytest.mark.parametrize("bomb", TEXTS)
@pytest.mark.parametrize("listener", LISTENERS)
def test_any_answer_is_parsed(listener, bomb):
    LISTENERS[listener](TEXTS[bomb])


def test_the_bombs_are_bombs():
    with pytest.raises(RecursionError):
        json.loads(BOMBS["lists in lists"])
    with pytest.raises(RecursionError):
        yaml.safe_load(BOMBS["lists in lists"])
    with pytest.raises(ValueError, match="digits"):
        int(TEXTS["digits"])
    with pytest.raises(OverflowError):
        float(int(TEXTS["beyond a float"].partition(".")[0]))
    whole = yaml.safe_load(YAML["laughs"])["name"][-1]
    for _ in range(12):
        whole = whole[-1]
    assert whole == "x"  # eleven lists of ten: a hundred thousand million in all
