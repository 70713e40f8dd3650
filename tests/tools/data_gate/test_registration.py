"""What form a file has is found by the sandboxed reader, never by the process that asks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tuneloop.core.errors import InvalidRequestError
from tuneloop.tools.config import data_records
from tuneloop.tools.data_gate.registration import registration_of

ROWS = [{"prompt": f"Count to {i}.", "completion": f"One to {i}.", "label": i % 2 == 0} for i in range(6)]


@pytest.fixture(autouse=True)
def no_parser_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process cannot read records; the reader's is another one."""

    def refused(*asked: Any) -> None:
        raise AssertionError(f"parsed in the process that asks: {asked}")

    monkeypatch.setattr(data_records, "_read", refused)


@pytest.mark.parametrize("odd", ["plain", "half a \\ud800 character", str(10**40)])
def test_form_is_guessed_by_the_sandboxed_reader(tmp_path: Path, odd: str) -> None:
    file = tmp_path / "rows.json"
    file.write_text(json.dumps(ROWS).replace("One to 3.", odd))
    columns = {"prompt": "prompt", "response": "completion", "kto_tag": "label"}
    assert registration_of(file) == {"file_name": "rows.json", "columns": columns}


@pytest.mark.parametrize(
    ("text", "says"), [("[{", "cannot be read"), ("", "is empty"), ("[" * 200_000, "cannot be read")]
)
def test_what_no_reader_can_read_is_one_line(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "rows.json"
    file.write_text(text)
    with pytest.raises(InvalidRequestError, match=says) as found:
        registration_of(file)
    assert "\n" not in str(found.value)
