"""The code of an answer can spoil itself and nothing else: what right answers give is found, cheats give nothing right."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tuneloop.tools.jobs.machine import ENGINES
from tuneloop.tools.scoring import typed_json
from tuneloop.tools.scoring.code_results import judge_results

TYPED = str(Path(typed_json.__file__).resolve())
HARNESS = ENGINES / "answers" / "run_answers.py"
INPUTS = [[2, 3], [5, 7]]
GOLD = "[5, 12]"
RIGHT = "def add(a, b):\n    return a + b\n"

Given = dict[str, dict[str, Any]]


def run(place: Path, **codes: str) -> Given:
    """What each code gives, by name."""
    asked = {"entry": "add", "inputs": INPUTS, "typed": False}
    return run_items(place, [{"id": name, "code": code, **asked} for name, code in codes.items()])


def run_items(place: Path, rows: list[dict[str, Any]], python: str = sys.executable, seconds: int = 1) -> Given:
    """What each item gives, by name; an item says how its code is run."""
    out = place / "out"
    out.mkdir(exist_ok=True)
    (place / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sets = [{"model": "m", "set": "s", "items": str(place / "items.jsonl")}]
    (place / "job.json").write_text(json.dumps({"out": str(out), "seconds": seconds, "sets": sets, "typed": TYPED}))
    # Should a guard be missing, the harm ends with the processes of this namespace.
    apart = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"]
    argv = [*apart, python, "-S", str(HARNESS), str(place / "job.json")]
    env = {"PYTHONPATH": str(ENGINES), "TMPDIR": str(place)}
    done = subprocess.run(argv, env=env, cwd=out, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads((out / "results.json").read_text())["results"]
    assert [p.name for p in out.iterdir()] == ["results.json"]
    return {one["id"]: one for one in found["items"]}


def right(given: Given, name: str) -> bool:
    return judge_results(GOLD, given[name]["results"])[1]


FINE = {
    "plain": RIGHT,
    "lambda": "add = lambda a, b: a + b",
    "printing": f"print('a lot' * 9999)\n{RIGHT}",
    "a class": "class A:\n    def __call__(self, a, b): return a + b\nadd = A()",
    "the standard library": "import re, math, json, threading, asyncio, decimal\n" + RIGHT,
    "threads": "from concurrent.futures import ThreadPoolExecutor as T\ndef add(a, b): return T(2).submit(sum, [a, b]).result()",
    "files of its own": "def add(a, b):\n open('x', 'w').write(str(a + b))\n return int(open('x').read())",
    "changed arguments": "def add(a, b):\n a += b\n return a",
}


def test_what_is_right_is_found(tmp_path: Path) -> None:
    given = run(tmp_path, **FINE)
    assert [name for name in FINE if not right(given, name)] == []


OUT = "__import__('os').environ['HOME']"
FORGED = '[{"value": 5}, {"value": 13}]'
CHEATS = {
    "equal to everything": "class E:\n def __eq__(s, o): return True\n def __hash__(s): return 5\ndef add(a, b): return E()",
    "a number that is equal to everything": (
        "class E(int):\n def __eq__(s, o): return True\n __ne__ = lambda s, o: False\ndef add(a, b): return E(1)"
    ),
    "a text that is equal to everything": "class E(str):\n def __eq__(s, o): return True\ndef add(a, b): return E('5')",
    "exit": "import sys\nsys.exit(0)",
    "exit in the call": "import sys\ndef add(a, b): sys.exit(0)",
    "a hard exit": "import os\nos._exit(0)",
    "a signal to itself": "import os, signal\ndef add(a, b): signal.raise_signal(9)",
    "a printed result": f"print('{FORGED}', flush=True)\ndef add(a, b): return 0",
    "a result into every descriptor": (
        f"import os\nfor fd in range(64):\n try: os.write(fd, b'{FORGED}')\n except OSError: pass\ndef add(a, b): return 0"
    ),
    "results forged and left": (
        f"import os\nfor fd in range(3, 64):\n try: os.write(fd, b'{FORGED}')\n except OSError: pass\nos._exit(0)"
    ),
    "patched JSON": f"import json\njson.dumps = lambda *a, **k: '{FORGED}'\ndef add(a, b): return 0",
    "patched builtins": "import builtins\nbuiltins.type = lambda x: int\nclass E: pass\ndef add(a, b): return E()",
    "patched harness": (
        "import sys\nm = sys.modules['__main__']\nm.plain = lambda v, d=0: 'right'\nm.result = lambda *a: {'value': True}\n"
        "def add(a, b): return 0"
    ),
    "all errors swallowed": "import sys\nsys.excepthook = lambda *a: None\nraise BaseException",
    "true": "def add(a, b): return True",
    "NaN": "def add(a, b): return float('nan')",
    "infinity in JSON": 'import json\njson.dumps = lambda *a, **k: \'[{"value": 1e999}, {"value": NaN}]\'\ndef add(a, b): 0',
    "half a character": "def add(a, b): return '\\ud800'",
    "endless": "def add(a, b):\n while True: pass",
    "endless nesting": "def add(a, b):\n x = []\n for _ in range(10**5): x = [x]\n return x",
    "forged nesting": "import json\njson.dumps = lambda *a, **k: '[' * 30000\ndef add(a, b): return 0",
    "endless output": "def add(a, b): return 'x' * 10**7",
    "a huge number": "def add(a, b): return 1 << 10**7",
    "much memory": "def add(a, b): return len(bytearray(1 << 34))",
    "endless recursion": "import sys\nsys.setrecursionlimit(10**9)\ndef add(a, b): return add(a, b)",
    "a fork bomb": "import os\nwhile True: os.fork()",
    "a process": "import subprocess\ndef add(a, b): return subprocess.run(['/bin/echo', '5'], capture_output=True)",
    "the parent killed": "import os\nos.kill(os.getppid(), 9)",
    "signals to all": "import os\ndef add(a, b): return [os.kill(-1, 0), 5][1] if a == 2 else 12",
    "a file too large": "def add(a, b):\n with open('x', 'wb') as f: return f.write(bytes(1 << 28))",
    "no function": "add = 5",
    "nothing": "pass",
    "no Python": "def add(a, b",
    "a null byte": "\0",
}


def test_cheating_replies_score_zero_and_disturb_no_other(tmp_path: Path) -> None:
    """Before, between and after them right answers are right."""
    codes = {"first": RIGHT}
    for i, (name, code) in enumerate(CHEATS.items()):
        codes |= {name: code} | ({f"between {i}": RIGHT} if i % 8 == 0 else {})
    given = run(tmp_path, **codes, last=RIGHT)
    honest = [name for name in given if name in ("first", "last") or name.startswith("between")]
    assert [name for name in honest if not right(given, name)] == []
    assert [name for name in CHEATS if right(given, name)] == []
    assert given.keys() == codes.keys() | {"last"}
    assert not [p for p in tmp_path.iterdir() if p.name.startswith("tmp")], "nothing is left of working folders"


def test_an_answer_knows_only_its_own_item(tmp_path: Path) -> None:
    """Neither other items, nor results, nor the harness's memory, nor what its predecessor wrote."""
    peeks = {
        "items": f"def add(a, b): return open({str(tmp_path / 'items.jsonl')!r}).read()",
        "results": f"def add(a, b): return open({str(tmp_path / 'out/results.json')!r}, 'w').write('[]')",
        "folder": f"import os\ndef add(a, b): return os.listdir({str(tmp_path)!r})",
        "memory": "import os\ndef add(a, b): return open(f'/proc/{os.getppid()}/mem', 'rb').read(1)",
        "descriptors": (
            "import os\ndef add(a, b):\n place = f'/proc/{os.getppid()}/fd'\n"
            " return [open(f'{place}/{n}').read() for n in os.listdir(place) if int(n) > 2][0]"
        ),
        "network": "import socket\ndef add(a, b): return socket.create_connection(('127.0.0.1', 9))",
        "unix": "import socket\ndef add(a, b): return socket.socket(socket.AF_UNIX)",
        "limits": "import os, resource\ndef add(a, b): return resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (1, 1))",
        "ptrace": (
            "import ctypes, os\ndef add(a, b):\n"
            " if ctypes.CDLL(None, use_errno=True).ptrace(16, os.getppid(), 0, 0): raise OSError(ctypes.get_errno(), '')"
        ),
        "own limits": "import resource\ndef add(a, b): return resource.setrlimit(resource.RLIMIT_CPU, (99, 99))",
    }
    given = run(tmp_path, **peeks)
    refused = ("PermissionError", "ValueError", "IndexError")
    assert {name: one for name, one in given.items() if one["results"][0].get("error") not in refused} == {}


def test_sleeping_reply_is_ended_and_cpu_time_is_counted(tmp_path: Path) -> None:
    began = time.monotonic()
    given = run(tmp_path, busy="def add(a, b):\n while True: pass", slow=f"import time\ntime.sleep(1.5)\n{RIGHT}")
    assert given["busy"] == {"id": "busy", "results": None, "why": "ended early"}
    assert right(given, "slow"), "waiting is no work"
    assert time.monotonic() - began > 2


@pytest.mark.slow
def test_who_waits_for_ever_is_ended(tmp_path: Path) -> None:
    given = run(tmp_path, asleep="import time\ntime.sleep(10**6)")
    assert given["asleep"]["why"] == "took too long"


def test_leftover_output_of_earlier_attempt_is_ignored(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "results.json").mkdir(parents=True)
    (out / "results.part").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(out / "pipe")
    assert right(run(tmp_path, plain=RIGHT), "plain")
    assert not (tmp_path / "elsewhere").exists()


def test_without_the_filter_processes_could_be_made(tmp_path: Path) -> None:
    """The attack works where nothing holds it: the same code outside."""
    code = "import os\nif os.fork() == 0: os._exit(0)\nos.wait()\nimport socket; socket.socket()"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert ctypes.CDLL(None).prctl(3, 0, 0, 0, 0) == 1, "a process can be looked into by default"


BY_DESCRIPTOR = """
import fcntl, os, socket, struct, sys, time
if sys.argv[2] == "filtered":
    sys.path[:0] = sys.argv[3:]
    import syscall_filter
    syscall_filter.forbid()
(r, w), (a, b) = os.pipe(), socket.socketpair()
victim = int(sys.argv[1])
for set_owner in (
    lambda fd: fcntl.fcntl(fd, fcntl.F_SETOWN, victim),
    lambda fd: fcntl.fcntl(fd, 15, struct.pack("ii", 1, victim)),
    lambda fd: fcntl.ioctl(a, 0x8901, struct.pack("i", victim)),
    lambda fd: fcntl.ioctl(a, 0x8902, struct.pack("i", victim)),
):
    try:
        set_owner(r)
    except PermissionError:
        continue
    for fd in (r, a):
        fcntl.fcntl(fd, 10, 9)  # F_SETSIG
        fcntl.fcntl(fd, fcntl.F_SETFL, os.O_ASYNC)
    os.write(w, b"x")
    b.send(b"x")
    print("let through")
assert fcntl.fcntl(r, fcntl.F_GETFL) is not None and fcntl.fcntl(r, fcntl.F_SETFD, 1) == 0
"""


@pytest.mark.parametrize("how", ["bare", "filtered"])
def test_no_signal_by_a_descriptor_that_is_ready(how: str) -> None:
    """Where Landlock is older than its scopes, the filter alone keeps the kernel from signalling for an answer."""
    engines = str(ENGINES)
    victim = subprocess.Popen(["/bin/sleep", "60"])
    words = [sys.executable, "-c", BY_DESCRIPTOR, str(victim.pid), how, engines, f"{engines}/answers"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    if how == "bare":
        assert victim.wait(10) == -9, "the attack works where nothing holds it"
        return
    assert (said, victim.poll()) == ("", None)
    victim.kill()
    victim.wait()


PARENT = "__import__('os').path.dirname(__import__('os').environ['HOME'])"
SPOILERS = {
    "modes": f"import os\nfor p in ({PARENT}, '/tmp', '/', '..', os.environ['HOME']): os.chmod(p, 0)",
    "modes by descriptor": (
        f"import os\nfd = os.open({PARENT}, os.O_PATH)\nos.chmod(f'/proc/self/fd/{{fd}}', 0)\nos.chmod('..', 0, dir_fd=fd)"
    ),
    "fchmodat2": "import ctypes\nfor p in (b'..', b'/tmp'): ctypes.CDLL(None).syscall(452, -100, p, 0, 0)",
    "owners": f"import os\nfor p in ({PARENT}, '/tmp', '..'): os.chown(p, 4242, 4242); os.lchown(p, 4242, 4242)",
    "times": f"import os\nfor p in ({PARENT}, '/tmp', '..'): os.utime(p, (0, 0))",
    "attributes": "import os\nfor p in ('.', '..', '/tmp'): os.setxattr(p, 'user.x', b'y'); os.removexattr(p, 'user.x')",
    "flags": "import fcntl, os, struct\nfd = os.open('.', 0)\nfcntl.ioctl(fd, 0x40086602, struct.pack('q', 0x30))",
    "another name": "import os\nos.rename(os.environ['HOME'], os.environ['HOME'] + 'x')",
    "a link in its place": "import os\nos.rmdir(os.environ['HOME']); os.symlink('/', os.environ['HOME'])",
    "no working folder": "import os\nos.rmdir(os.getcwd())",
    "everything removed": "import os\nfor p in ('..', '/tmp'):\n for n in os.listdir(p): os.unlink(p + '/' + n)",
    "deep folders": "import os\nfor _ in range(3000): os.mkdir('d'); os.chdir('d')\ntime = __import__('time'); time.sleep(1)",
    "closed folders": "import os\nos.umask(0o777)\nfor i in range(9): os.mkdir(str(i), 0)",
    "many files": "for i in range(10**9): open(str(i), 'w').close()",
    "a full disk": "for i in range(10**9):\n with open(str(i), 'wb') as f: f.write(bytes(16 << 20))",
    "sparse files": "import os\nfor i in range(10**9):\n os.truncate(os.open(str(i), 65), 16 << 20); os.closerange(9, 40)",
    "shared memory": "for i in range(40):\n with open(f'/dev/shm/left-{i}', 'wb') as f: f.write(bytes(1 << 20))",
    "segments": "import ctypes\nc = ctypes.CDLL(None)\nassert c.shmget(0, 1 << 20, 0o1777) >= 0",
    "threads": (
        "import threading, time\nthreading.stack_size(1 << 15)\nwhile True: threading.Thread(target=time.sleep, args=(99,)).start()"
    ),
    "brothers": "import os\nfor p in os.listdir('/proc'):\n if p.isdigit(): os.kill(int(p), 9)",
    "a pipe for its input": "import os\nos.mkfifo('x'); os.mkfifo('results.json')",
}  # fmt: skip


@pytest.mark.slow
def test_the_evaluation_survives_what_an_answer_does_to_folders(tmp_path: Path) -> None:
    """Modes, owners, times and names outside stay; after each a right answer is right, and nothing is left of any."""
    before = [(p.stat().st_mode, p.stat().st_uid) for p in (Path("/tmp"), tmp_path)]
    codes: dict[str, str] = {}
    for name, code in SPOILERS.items():
        codes |= {name: code, f"after {name}": RIGHT}
    given = run(tmp_path, **codes)
    assert [name for name in codes if name.startswith("after") and not right(given, name)] == []
    assert [(p.stat().st_mode, p.stat().st_uid) for p in (Path("/tmp"), tmp_path)] == before
    assert {given[name]["why"] for name in ("a full disk", "sparse files")} == {"wrote too much"}
    assert given["many files"]["why"] in ("wrote too much", "ended early"), "a slow disk takes all its CPU time before"
    assert given["threads"]["why"] == "made too many threads"
    assert [p.name for p in tmp_path.iterdir() if p.name not in ("out", "items.jsonl", "job.json")] == []
    assert not [*Path("/dev/shm").glob("left-*")]


def test_what_copies_files_works(tmp_path: Path) -> None:
    """Modes and times that seem to be set."""
    code = "import shutil\ndef add(a, b):\n open('x', 'w').write('y')\n shutil.copy2('x', 'z')\n return a + b"
    assert right(run(tmp_path, copies=code), "copies")
