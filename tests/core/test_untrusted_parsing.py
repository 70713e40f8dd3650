from __future__ import annotations

import gc
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tuneloop.core.untrusted import parse_expression, parse_python

SOURCE = "\n".join(f"def f{i}(a, b=({i}, [1, {{2: 3}}])):\n    return [x for x in (a, b) if x]" for i in range(300))


class Garbage:
    """A circle whose end runs code, so that threads take turns inside the parser."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        sum(range(50))


def parse(_: int) -> int:
    for _ in range(20):
        Garbage()
    return len(parse_python(SOURCE).body)


def test_many_threads_at_once() -> None:
    """Without the lock about one in five ends in a SystemError on CPython 3.11."""
    before, often = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(50)
    try:
        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(parse, range(40))) == {300}
    finally:
        sys.setswitchinterval(before)
        gc.set_threshold(*often)


def test_wrong_source_is_named() -> None:
    with pytest.raises(SyntaxError) as told:
        parse_python("def f(:", "process_data.py")
    assert told.value.filename == "process_data.py"
    with pytest.raises(SyntaxError):
        parse_expression("1 +")
