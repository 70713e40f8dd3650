import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneloop.tools.data_script.static_check import check_script

GOOD = '''"""Reads, cleans, writes data.json."""
import argparse
import json
import os
import urllib.parse
from pathlib import Path

import pandas as pd
from pyarrow import parquet


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--debug", action="store_true")
    args = parser.parse_args()
    rows = [{"instruction": "a", "input": "", "output": "b"}]
    Path("data.json").write_text(json.dumps(rows[:1] if args.debug else rows))


main()
'''


def test_a_good_script_passes() -> None:
    assert check_script(GOOD) == []
    assert check_script(GOOD, frozenset({"pandas", "pyarrow"})) == []
    assert check_script(GOOD, {"pandas", "pyarrow"}.__contains__) == []
    assert check_script(GOOD.replace('"data.json"', 'os.path.join(os.getcwd(), "data.json")')) == []


@pytest.mark.parametrize(
    ("old", "new", "line", "word"),
    [
        ("import json", "import json as", 3, "invalid syntax"),
        ("def main() -> None:", "def main() -> None", 12, "expected ':'"),
        ("import json", "import requests", 3, "no network"),
        ("import json", "import socket", 3, "no network"),
        ("import json", "import urllib.request", 3, "no network"),
        ("import json", "from urllib import request", 3, "no network"),
        ("import json", "import http.client", 3, "no network"),
        ("import json", "from openai import OpenAI", 3, "no network"),
        ("import json", "import subprocess", 3, "processes"),
        ("import json", "from subprocess import run", 3, "processes"),
        ("import json", "import ctypes", 3, "processes"),
        ("import json", "import nltk", 3, "does not have"),
        ("import json", "import tuneloop.core", 3, "does not have"),
        ("import json", "from . import x", 3, "relative"),
        ("    rows =", "    os.system('ls')\n    rows =", 16, "os.system"),
        ("    rows =", "    eval('1')\n    rows =", 16, "eval()"),
        ("    rows =", "    __import__('socket')\n    rows =", 16, "__import__()"),
        ("    rows =", "    input('?')\n    rows =", 16, "nobody answers"),
        ("    rows =", "    open('/etc/x', 'w')\n    rows =", 16, "only the working folder"),
        ("    rows =", "    open(mode='a', file='../x')\n    rows =", 16, "only the working folder"),
        ("import json", "import importlib; importlib.import_module('socket')", 3, "no network"),
        ("    rows =", "    import os as o; o.execvp('ls', [])\n    rows =", 16, "os.execvp()"),
        ("    rows =", "    from os import popen as p; p('ls')\n    rows =", 16, "os.popen()"),
        ("    args =", "    parser.add_argument('path')\n    args =", 15, "needs the argument path"),
        ("    args =", "    parser.add_argument('--n', required=True)\n    args =", 15, "requires --n"),
        ('action="store_true"', "type=int", 14, "must be a switch"),
        ("if args.debug else rows", "if True else rows", 14, "changes nothing"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(old: str, new: str, line: int, word: str) -> None:
    found = check_script(GOOD.replace(old, new, 1))
    assert any(f.startswith(f"process_data.py:{line}: ") and word in f for f in found), found


@pytest.mark.parametrize(
    "line",
    ["parser.add_argument('--n', type=int, default=3)", "parser.add_argument('path', nargs='?')", "open('x', 'w')"],
)
def test_what_a_script_may_do(line: str) -> None:
    assert check_script(GOOD.replace("    args =", f"    {line}\n    args =")) == []
    assert check_script(GOOD.replace("    args =", "    open('/data/rows.json')\n    args =")) == []


@pytest.mark.parametrize(("old", "word"), [('"data.json"', "data.json"), ('"--debug"', "--debug")])
def test_the_contract(old: str, word: str) -> None:
    found = check_script(GOOD.replace(old, '"--x"'))
    assert len(found) == 1
    assert word in found[0]


def test_a_docstring_is_no_code() -> None:
    assert len(check_script('"""Takes --debug, writes data.json"""\n"data.json"\n"--debug"\n')) == 2


def test_no_sentence_without_a_reason() -> None:
    assert check_script("x = 1\0")
    assert check_script("(" * 5000)
    assert len(check_script("")) == 2


@given(st.text(max_size=300))
def test_any_text_gets_an_answer(code: str) -> None:
    assert all(sentence.startswith("process_data.py") for sentence in check_script(code))
