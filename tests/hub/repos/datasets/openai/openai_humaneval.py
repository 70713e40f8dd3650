"""openai/openai_humaneval: the head of a function, its body, and a `check(candidate)`; functions of our own."""

from __future__ import annotations

from collections.abc import Iterator

from tests.hub.making import parquet

WORDS = ("rivers", "lamps", "songs", "coins", "tiles", "boats")


def files() -> dict[str, bytes]:
    rows = [
        {"task_id": f"HumanEval/{i}", "prompt": head, "canonical_solution": body, "test": test, "entry_point": entry}
        for i, (entry, head, body, test) in enumerate(problems())
    ]
    return {
        "README.md": b"---\nlicense: mit\n---\n# HumanEval\n",
        "openai_humaneval/test-00000-of-00001.parquet": parquet(rows),
    }


def problems() -> Iterator[tuple[str, str, str, str]]:
    for i, word in enumerate(WORDS):
        yield counted(i, word)
        yield near(i, word)
        yield hidden(i, word)
        yield pairs(i, word)


def checked(body: str) -> str:
    return f"\n\nMETADATA = {{\n    'author': 'us',\n    'dataset': 'test'\n}}\n\n\ndef check(candidate):\n{body}\n"


def counted(i: int, word: str) -> tuple[str, str, str, str]:
    """Asserts that are written out."""
    entry = f"count_{word}"
    head = (
        f"from typing import List\n\n\ndef {entry}(values: List[int], least: int) -> int:\n"
        f'    """ Count the {word} that have at least `least` and no more than ten times {i + 2}.\n'
        f'    >>> {entry}([1, 5, 9], 4)\n    2\n    """\n'
    )
    body = f"    return sum(least <= value <= {10 * (i + 2)} for value in values)\n"
    most = 10 * (i + 2)
    test = (
        "    assert candidate([1, 5, 9], 4) == 2\n    assert candidate([], 0) == 0, 'none'\n"
        f"    assert candidate([{most}, 999], 1) == 1"
    )
    return entry, head, body, checked(test)


def near(i: int, word: str) -> tuple[str, str, str, str]:
    """Asserts with a tolerance."""
    entry = f"mean_of_{word}"
    head = (
        f'\n\ndef {entry}(weights: list) -> float:\n    """ The mean weight of {word}, each {i + 1} heavier.\n    """\n'
    )
    body = f"    total = 0\n    for weight in weights:\n        total += weight + {i + 1}\n\n    return total / len(weights)\n"
    test = (
        f"    assert abs(candidate([1.0, 2.0]) - {i + 2.5}) < 1e-6\n    assert abs(candidate([0.1]) - {i + 1.1}) < 1e-6"
    )
    return entry, head, body, checked(test)


def hidden(i: int, word: str) -> tuple[str, str, str, str]:
    """A helper in the head, and a test that draws texts and uses it."""
    entry, helper = f"unhide_{word}", f"hide_{word}"
    head = (
        f'def {helper}(s: str):\n    """\n    turns {word} by {i + 3} places.\n    """\n    k = {i + 3}\n    k %= max(len(s), 1)\n'
        f'    return s[k:] + s[:k]\n\n\ndef {entry}(s: str):\n    """\n    takes what {helper} gives and turns it back.\n    """\n'
    )
    body = f"    k = {i + 3} % max(len(s), 1)\n    return s[len(s) - k:] + s[:len(s) - k]\n"
    test = (
        "    from random import randint, choice\n    import string\n\n    for _ in range(20):\n"
        "        text = ''.join(choice(string.ascii_letters) for i in range(randint(10, 20)))\n"
        f"        assert candidate({helper}(text)) == text"
    )
    return entry, head, body, checked(test)


def pairs(i: int, word: str) -> tuple[str, str, str, str]:
    """Tuples, which are no lists."""
    entry = f"split_{word}"
    head = f'\ndef {entry}(values):\n    """The smaller and the larger {word} than {i * 7}, two tuples."""\n'
    body = (
        f"    low = tuple(v for v in values if v < {i * 7})\n    high = tuple(v for v in values if v > {i * 7})\n"
        "    return low, high\n"
    )
    test = f"    # easy\n    assert candidate([{i * 7 - 1}, {i * 7 + 1}]) == (({i * 7 - 1},), ({i * 7 + 1},))\n    assert True, 'x'"
    return entry, head, body, checked(test)
