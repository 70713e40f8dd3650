"""A test in a process of its own decides about a reply in another: what is right passes, and no reply passes by any other way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.engines.answers.test_run_answers import Given, run_items
from tuneloop.core.catalog import Program
from tuneloop.tools.benchmark_items.code_tests import PASSED
from tuneloop.tools.scoring.code_results import judge_results

PROGRAM = """\
def check(candidate):
    for a in range(3):
        assert abs(candidate(a, 1) - (a + 1)) < 1e-6
    assert candidate(2, 2) == 4 and candidate('a', 'b') == 'ab'
    assert candidate((1,), (2,)) == (1, 2)

check(add)
"""
RIGHT = "def add(a, b):\n    return a + b\n"
WRONG = "def add(a, b):\n    return None\n"
OBJECTS = Program(
    program="root = Node(1)\nroot.left = Node(2)\nassert total(root) == 3\nassert list(values(root)) == [1, 2]\n"
    "assert [p.first for p in pairs([Pair(5, 24), Pair(1, 2)])] == [1, 5]\nassert len(Pair(1, 2)) == 2\n",
    names=("Node", "Pair", "pairs", "total", "values"),
)
NODES = """\
class Node:
    def __init__(self, value): self.value, self.left = value, None
class Pair:
    def __init__(self, first, second): self.first, self.second = first, second
    def __len__(self): return 2
def total(node): return node.value + (total(node.left) if node.left else 0)
def values(node):
    while node:
        yield node.value
        node = node.left
def pairs(given): return sorted(given, key=lambda pair: pair.first)
"""


def run(place: Path, codes: dict[str, str], test: Program | None = None) -> Given:
    test = test or Program(program=PROGRAM, names=("add",))
    asked = test.model_dump(mode="json", exclude={"before"})
    return run_items(place, [{"id": name, **asked, "code": code} for name, code in codes.items()])


def right(given: Given, name: str) -> bool:
    return judge_results(PASSED, given[name]["results"])[1]


FINE = {
    "plain": RIGHT,
    "a lambda": "add = lambda a, b: a + b",
    "printing": f"print('passed', flush=True)\n{RIGHT}",
    "values of a kind": "class Mine(int): pass\ndef add(a, b):\n    s = a + b\n    return Mine(s) if type(s) is int else s\n",
    "changed arguments": "def add(a, b):\n    a += b\n    return a\n",
}


def test_what_is_right_passes(tmp_path: Path) -> None:
    given = run(tmp_path, FINE)
    assert {name for name in FINE if not right(given, name)} == set(), given


def test_what_a_reply_makes_stays_with_it_and_can_be_used(tmp_path: Path) -> None:
    given = run(tmp_path, {"nodes": NODES, "others": NODES.replace("node.value +", "1 +")}, OBJECTS)
    assert right(given, "nodes"), given
    assert not right(given, "others")


# Each is wrong by its values: it would have to pass by something else.
ATTACKS = {
    "wrong": WRONG,
    "no such name": "def plus(a, b): return a + b",
    "ends well": f"{WRONG}import sys\nsys.exit(0)",
    "ends at once": f"{WRONG}import os\nos._exit(0)",
    "ends when called": "import os\ndef add(a, b): os._exit(0)",
    "says so": "def add(a, b):\n    print('passed', flush=True)\n",
    "equal to all": "class A(int):\n    def __eq__(self, o): return True\n    def __sub__(self, o): return self\n"
    "    def __abs__(self): return self\n    def __lt__(self, o): return True\ndef add(a, b): return A(0)",
    "an object for an answer": "class A:\n    def __eq__(self, o): return True\n    __lt__ = __sub__ = __abs__ = __eq__\n"
    "def add(a, b): return A()",
    "another assert": "import builtins\nbuiltins.AssertionError = type('A', (Exception,), {})\nbuiltins.abs = lambda x: 0\n"
    + WRONG,
    "other modules": "import sys\nsys.modules['test'] = sys.modules['__main__'] = None\nimport json\n"
    "json.dumps = lambda *a, **k: '{\"value\": true}'\n" + WRONG,
    "writes to all it holds": "import os\nfor handle in range(3, 64):\n    try: os.write(handle, b'{\"value\": true}\\n' * 9)\n"
    "    except OSError: pass\n" + WRONG,
    "answers for the test": "import os\ndef add(a, b):\n    for handle in range(3, 64):\n        try:\n"
    "            os.write(handle, b'{\"value\": true}')\n            os.close(handle)\n        except OSError: pass\n",
    "forks": "import os\ndef add(a, b):\n    if os.fork() == 0: os._exit(0)\n    os._exit(0)",
    "sleeps": "import time\ndef add(a, b): time.sleep(999)",
    "spins": "def add(a, b):\n    while True: pass",
    "takes all memory": "def add(a, b): return bytearray(1 << 40)",
    "an endless answer": "def add(a, b): return 'x' * (1 << 27)",
    "a deep answer": "def add(a, b):\n    x = []\n    for _ in range(100000): x = [x]\n    return x",
    "a number without end": "def add(a, b): return 1 << (1 << 24)",
    "kills": "import os, signal\ndef add(a, b):\n    os.kill(os.getppid(), 9)\n    os.kill(-1, 9)",
    "a reader of other processes": """\
import os
NAMES = ('mem', 'environ', 'maps', 'stack', *(f'fd/{n}' for n in range(12)))
def seen(path):
    try: return bool(open(path, 'rb').read(9))
    except OSError: return False
def add(a, b):
    others = [pid for pid in os.listdir('/proc') if pid.isdigit() and int(pid) != os.getpid()]
    return a + b if any(seen(f'/proc/{pid}/{name}') for pid in others for name in NAMES) else None
""",
    "a reader of the test": """\
import os
places = [os.path.join(root, name) for top in ('..', '../..', '/tmp') for root, _, names in os.walk(top) for name in names]
def seen(path):
    try: return b'candidate' in open(path, 'rb').read(1 << 20)
    except OSError: return False
def add(a, b):
    return a + b if any(map(seen, places)) else None
""",
}


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Given:
    return run(tmp_path_factory.mktemp("attacked"), {**ATTACKS, "the last one": RIGHT})


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS)
def test_no_attack_passes(attack: str, attacked: Given) -> None:
    assert not right(attacked, attack), attacked[attack]


def test_replies_after_attacks_are_scored(attacked: Given) -> None:
    assert right(attacked, "the last one")


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import sys\nadd(1, 2)\nsys.exit(0)", "SystemExit"),
        ("assert add(object(), 2)", "TypeError"),
        ("assert add('a', 1) == 2", "TypeError"),
        ("def add(:", "SyntaxError"),
    ],
)
def test_unfinished_test_passes_no_reply(program: str, said: str, tmp_path: Path) -> None:
    given = run(tmp_path, {"x": RIGHT}, Program(program=program, names=("add",)))
    assert given["x"]["results"] == [{"error": said}]


def test_values_keep_their_types(tmp_path: Path) -> None:
    """Where a list is given and a tuple is wanted, Python's asserts fail; so does the comparison out here."""
    gold = '{"typed": [{"t": [1, 2]}]}'
    codes: dict[str, Any] = {
        "tuple": "def f(): return (1, 2)",
        "list": "def f(): return [1, 2]",
        "other": "def f(): return (1, 3)",
        "whole": "def f(): return (1.0, 2)",
        "equal to all": "class A(tuple):\n    def __eq__(self, o): return True\ndef f(): return A()",
    }
    asked = {"entry": "f", "inputs": [[]], "typed": True}
    given = run_items(tmp_path, [{"id": name, "code": code, **asked} for name, code in codes.items()])
    assert [name for name in codes if judge_results(gold, given[name]["results"])[1]] == ["tuple", "whole"]
