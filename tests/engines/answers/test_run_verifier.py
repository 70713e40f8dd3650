"""A verifier is asked about each answer in a process of its own: what it says is kept, what an answer does to it is not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tuneloop.tools.jobs.machine import ENGINES

HARNESS = ENGINES / "answers" / "run_verifier.py"
NEAR = """
asked = []
def score(answer, item):
    asked.append(answer)
    assert len(asked) == 1, "an answer before has left something"
    return 1 / (1 + abs(int(answer) - item["sum"]))
"""
# What nobody should write: it believes its answers.
NAIVE = """
def score(answer, item):
    return eval(answer)
"""


def ask(place: Path, verifier: str, answers: dict[str, str], right: str = "3") -> subprocess.CompletedProcess[str]:
    out = place / "out"
    out.mkdir(exist_ok=True)
    (place / "verifier.py").write_text(verifier)
    rows = [{"id": name, "answer": answer, "right": right, "item": {"sum": 3}} for name, answer in answers.items()]
    (place / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    one = {"model": "m", "set": "s", "verifier": str(place / "verifier.py"), "items": str(place / "items.jsonl")}
    (place / "job.json").write_text(json.dumps({"out": str(out), "seconds": 1, "sets": [one]}))
    # Should a guard be missing, the harm ends with the processes of this namespace.
    apart = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"]
    argv = [*apart, sys.executable, "-B", str(HARNESS), str(place / "job.json")]
    env = {"PYTHONPATH": str(ENGINES), "TMPDIR": str(place), "SECRET": "sesame"}
    return subprocess.run(argv, env=env, cwd=out, capture_output=True, text=True, timeout=120, check=False)


def said(place: Path, verifier: str, answers: dict[str, str], right: str = "3") -> dict[str, Any]:
    """What was said of each answer, by name."""
    done = ask(place, verifier, answers, right)
    assert done.returncode == 0, done.stderr
    assert [p.name for p in (place / "out").iterdir()] == ["results.json"]
    (found,) = json.loads((place / "out" / "results.json").read_text())["results"]
    return {one["id"]: one["results"][0] if one["results"] else one["why"] for one in found["items"]}


def test_it_says_what_each_answer_is_worth(tmp_path: Path) -> None:
    found = said(tmp_path, NEAR, {"right": "3", "near": "4", "no number": "three"})
    assert found == {"right": {"value": 1.0}, "near": {"value": 0.5}, "no number": {"error": "ValueError"}}


HOSTILE = {
    "kills its parent": "__import__('os').kill(__import__('os').getppid(), 9)",
    "forges the results": "open(__import__('os').getcwd() + '/../../results.json', 'w').write('{}') and 1",
    "starts a process": "__import__('subprocess').run(['true']).returncode + 1",
    "opens a socket": "__import__('socket').socket() and 1",
    "reads the items": "open('/proc/self/cwd/../../../items.jsonl').read() and 1",
    "closes a folder to all": "__import__('os').chmod('/tmp', 0)",
    "leaves without a word": "__import__('os')._exit(0)",
    "never ends": "[0 for _ in iter(int, 1)]",
    "takes all memory": "len(bytearray(8 << 30))",
    "is no number": "float('nan')",
}


def test_an_answer_that_takes_the_verifier_over_spoils_itself_alone(tmp_path: Path) -> None:
    mode = Path("/tmp").stat().st_mode
    found = said(tmp_path, NAIVE, {**HOSTILE, "after all of them": "0.25"}, right="1")
    assert found.pop("after all of them") == {"value": 0.25}
    assert Path("/tmp").stat().st_mode == mode
    won = {name: one for name, one in found.items() if isinstance(one, dict) and one.get("value") == 1}
    assert won == {}
    assert found["never ends"] == "ended early"  # its CPU time was over


def test_a_broken_verifier_ends_the_job_in_one_line(tmp_path: Path) -> None:
    broken = {
        "nothing to import": ("import nothing_of_that_name", "cannot be loaded: ModuleNotFoundError"),
        "no function": ("x = 1", "cannot be loaded: AttributeError"),
        "turns down what is right": (
            "def score(answer, item): return 0",
            'gives {"value": 0.0} to the right answer of item a',
        ),
        "fails on what is right": ("def score(answer, item): return item['no']", '{"error": "KeyError"}'),
    }
    for name, (verifier, line) in broken.items():
        place = tmp_path / name
        place.mkdir()
        done = ask(place, verifier, {"a": "3"})
        assert (done.returncode, done.stderr.count("\n")) == (1, 1), (name, done.stderr)
        assert line in done.stderr, name
        assert not (place / "out" / "results.json").exists()
