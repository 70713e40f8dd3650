"""What data scripts carry reads the same files as the tools do."""

from __future__ import annotations

import bz2
import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tuneloop.agents.policy.script_composer import load_library
from tuneloop.core.records import open_text, records

ROWS = [{"q": "Was kostet das?", "n": 1}, {"q": "计算", "n": 2}]


def test_a_script_reads_packed_files_and_other_encodings_by_itself(tmp_path: Path) -> None:
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "b.jsonl.bz2").write_bytes(bz2.compress(text.encode("utf-16")))
    (tmp_path / "c.txt").write_bytes("Rechne 中文字\n\nzwei\n".encode("gb18030"))
    pieces = load_library().needed(["records"])
    used = {name for piece in pieces for name in piece.uses}
    code = [*load_library().import_lines(used), *(piece.text for piece in pieces)]
    code.append("for name in sys.argv[1:]:\n    print(json.dumps(list(records(Path(name)))))")
    script = tmp_path / "script.py"
    script.write_text("from __future__ import annotations\nimport sys\n" + "\n".join(code))
    files = [str(tmp_path / name) for name in ("a.jsonl.gz", "b.jsonl.bz2", "c.txt")]
    done = subprocess.run([sys.executable, "-I", str(script), *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert found == [ROWS, ROWS, [{"text": "Rechne 中文字"}, {"text": "zwei"}]]
    assert found[0] == list(records(tmp_path / "a.jsonl.gz"))


def test_undecodable_bytes_are_an_error_by_default(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("计算".encode() * 20 + b"\xff")
    with pytest.raises(UnicodeDecodeError), open_text(tmp_path / "a.txt") as f:
        f.read()
    with open_text(tmp_path / "a.txt", "replace") as f:
        assert f.read().endswith("\ufffd")
