"""A chat template is a stranger's program: in the installed release it reaches nothing, and it comes to an end."""

from __future__ import annotations

import ast
import json
import subprocess
from pathlib import Path

from tests.test_layout import FLOORS
from tuneloop.tools.engines import Engine
from tuneloop.tools.jobs.machine import ENGINES

HERE = Path(__file__).parent
LOOP = "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}{% endfor %}"
TEMPLATES = {
    "honest": ("{% for m in messages %}<{{ m['content'] }}>{% endfor %}", "text: <hello>"),
    "classes": ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "SecurityError"),
    "globals": ("{{ raise_exception.__globals__['os'].system('id') }}", "SecurityError"),
    "format": ("{{ '{0.__class__.__init__.__globals__}'.format(messages) }}", "SecurityError"),
    "filter": ("{{ (messages | attr('__class__')).__mro__ }}", "SecurityError"),
    "code": ("{{ cycler.__init__.__globals__.os.popen('id').read() }}", "SecurityError"),
    "changes its input": ("{{ messages.append(1) }}", "SecurityError"),
    "includes": ("{% include '/etc/passwd' %}", "no loader"),
    "imports": ("{% import 'os' as os %}", "no loader"),
    "a long range": ("{% for i in range(10**9) %}{% endfor %}", "OverflowError"),
    "loops in loops": (LOOP, "TimeoutError: the chat template took more than 0.5 s"),
    "a great power": ("{{ (9 ** (9 ** 9)) % 7 }}", "SIGPROF"),
    "a long text": ("{{ 'x' * 10 ** 12 }}", "MemoryError"),
    "recursion": ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "RecursionError"),
}


def test_a_hostile_template_reaches_nothing_and_ends(opencompass: Engine, tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "templates.json").write_text(json.dumps({name: text for name, (text, _) in TEMPLATES.items()}))
    argv = [opencompass.python, HERE / "reference_templates.py", tiny, tmp_path / "templates.json"]
    env = {"PYTHONPATH": str(ENGINES / "opencompass"), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(list(map(str, argv)), env=env, capture_output=True, text=True, timeout=300, check=False)
    said = {row["name"]: row["said"] for row in map(json.loads, done.stdout.splitlines())}
    assert said.keys() == TEMPLATES.keys(), done.stderr[-2000:]
    assert {name: told for name, told in said.items() if TEMPLATES[name][1] not in told} == {}


def test_no_template_is_rendered_outside_a_job() -> None:
    """Nobody but the engines, whose releases are tested above, has a Jinja environment; the web page has its own files'."""
    floors = (ENGINES.parent / name for name in FLOORS)
    found = []
    for file in (path for floor in floors for path in floor.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [file for name in names if name.partition(".")[0] == "jinja2"]
    page = ENGINES.parent / "ui" / "app.py"
    assert found == [page]
    assert "loader=FileSystemLoader(HERE /" in page.read_text() and "from_string" not in page.read_text()
