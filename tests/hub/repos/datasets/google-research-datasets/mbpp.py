"""google-research-datasets/mbpp: a sentence, a solution, asserts as texts, in four splits; tasks of our own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.hub.making import parquet

Row = dict[str, Any]
WORDS = ("plums", "wheels", "letters", "stones", "ropes", "wolves")


def files() -> dict[str, bytes]:
    made = list(tasks())
    parts = {"prompt": made[:4], "test": made[4:40], "validation": made[40:44], "train": made[44:]}
    found = {f"full/{name}-00000-of-00001.parquet": parquet(rows) for name, rows in parts.items()}
    odd = parquet(
        [{"source_file": "x", "task_id": 1, "prompt": "Never read.", "code": "", "test_imports": [], "test_list": []}]
    )
    return found | {
        "sanitized/test-00000-of-00001.parquet": odd,
        "README.md": b"---\nlicense: cc-by-4.0\n---\n# MBPP\n",
    }


def tasks() -> Iterator[Row]:
    number = 0
    for i in range(9):
        for make in (shared, largest, close, depth, counts, chained):
            number += 1
            text, code, tests, setup = make(i, WORDS[i % 6] + "s" * (i // 6))
            yield {
                "task_id": number, "text": text, "code": code.replace("\n", "\r\n"), "test_list": tests,
                "test_setup_code": setup, "challenge_test_list": [],
            }  # fmt: skip


def shared(i: int, word: str) -> tuple[str, str, list[str], str]:
    name = f"shared_{word}_{i}"
    code = f"def {name}(a, b):\n  return tuple(sorted(set(a) & set(b)))[:{i + 2}]"
    tests = [f"assert {name}((3, 4, 5, 6), (5, 7, 4, 10)) == (4, 5)", f"assert {name}((1,), (2,)) == ()"]
    return f"Write a function to find the {i + 2} smallest {word} that two tuples share.", code, tests, ""


def largest(i: int, word: str) -> tuple[str, str, list[str], str]:
    name = f"largest_{word}_{i}"
    code = f"import heapq as hq\ndef {name}(nums, n):\n  return hq.nlargest(n, [x + {i} for x in nums])"
    tests = [f"assert set({name}([25, 35, 22], 2)) == set([{25 + i}, {35 + i}])", f"assert {name}([1], 1)==[{1 + i}]"]
    return f"Write a function for the n largest {word} after {i} is added to each.", code, tests, ""


def close(i: int, word: str) -> tuple[str, str, list[str], str]:
    name = f"area_of_{word}_{i}"
    code = f"import math\ndef {name}(r):\n  return math.pi * r * r * {i + 1}"
    tests = [
        f"assert math.isclose({name}(1), {3.141592653589793 * (i + 1)}, rel_tol=0.001)",
        f"assert {name}(0) == 0.0",
    ]
    return f"Write a function for the area of {i + 1} round {word} of radius r.", code, tests, ""


def depth(i: int, word: str) -> tuple[str, str, list[str], str]:
    name = f"depth_of_{word}_{i}"
    code = (
        "class Node:\n  def __init__(self, data):\n    self.data = data\n    self.left = None\n    self.right = None\n"
        f"def {name}(node):\n  if node is None:\n    return {i}\n  return 1 + max({name}(node.left), {name}(node.right))"
    )
    setup = "root = Node(1) \r\nroot.left = Node(2) \r\nroot.left.right = Node(3)"
    tests = [f"assert ({name}(root)) == {3 + i}", f"assert ({name}(root.left)) == {2 + i}"]
    return f"Write a function for the depth of a tree of {word}, counted from {i}.", code, tests, setup


def counts(i: int, word: str) -> tuple[str, str, list[str], str]:
    name = f"count_{word}_{i}"
    code = f"from collections import Counter\ndef {name}(items):\n  return Counter(items * {i + 1})"
    tests = [f"assert {name}(['a', 'b', 'a']) == ({{'a': {2 * i + 2}, 'b': {i + 1}}})", f"assert {name}([]) == {{}}"]
    return f"Write a function to count each of the {word}, {i + 1} times over.", code, tests, ""


def chained(i: int, word: str) -> tuple[str, str, list[str], str]:
    name = f"longest_chain_{word}_{i}"
    code = (
        "class Pair(object):\n  def __init__(self, a, b):\n    self.a = a\n    self.b = b\n"
        f"def {name}(arr, n):\n  return max(pair.b - pair.a for pair in arr) + n * {i}"
    )
    tests = [
        f"assert {name}([Pair(5, 24), Pair(15, 25)], 2) == {19 + 2 * i}",
        f"assert {name}([Pair(1, 2)], 1) == {1 + i}",
    ]
    return f"Write a function for the longest of chained {word}, and {i} for each.", code, tests, ""
