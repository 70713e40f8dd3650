"""Records that name images are read where the files are there and the text has a place for each."""

from pathlib import Path
from typing import Any

import pytest

from tuneloop.tools.data_gate.media import require_media
from tuneloop.tools.data_gate.records import RecordError, TrainingRow, schema_of

ALPACA = {"columns": {"prompt": "q", "response": "a", "images": "images", "videos": "videos"}}
SHAREGPT = {"formatting": "sharegpt", "columns": {"messages": "talk", "images": "images"}}


def read(entry: dict[str, Any], record: dict[str, Any], folder: Path) -> TrainingRow | RecordError:
    (folder / "a.png").touch()
    return require_media(schema_of(entry), folder).read(record)


def alpaca(text: str, **media: Any) -> dict[str, Any]:
    return {"q": text, "a": "A cat.", **media}


@pytest.mark.parametrize(
    "media",
    [
        {"images": ["a.png"]},
        {"images": "a.png"},
        {"images": ["a.png"], "videos": []},
        {"images": ["a.png"], "videos": None},
        {"images": [{"path": "a.png", "bytes": None}]},
        {"images": {"path": None, "bytes": "89504e47"}},
    ],
)
def test_what_is_there_is_read(media: dict[str, Any], tmp_path: Path) -> None:
    assert isinstance(read(ALPACA, alpaca("<image>What?", **media), tmp_path), TrainingRow)


def test_frames_of_a_video_are_a_list(tmp_path: Path) -> None:
    assert isinstance(read(ALPACA, alpaca("<video>What?", videos=[["a.png", "a.png"]]), tmp_path), TrainingRow)


@pytest.mark.parametrize(
    ("text", "media", "field", "found"),
    [
        ("<image>What?", {"images": ["b.png"]}, "images", "names 'b.png', which is no file"),
        ("<image>What?", {"images": ["/b.png"]}, "images", "names '/b.png'"),
        ("<image>What?", {"images": ["a\0.png"]}, "images", "which is no file"),
        ("<image>What?", {"images": [7]}, "images", "holds a number"),
        ("<image>What?", {"images": [None]}, "images", "holds null"),
        ("<image>What?", {"images": [{"path": "a.png"}]}, "images", "holds an object"),
        ("<image>What?", {"images": [{"path": None, "bytes": None}]}, "images", "holds an object"),
        ("<video>What?", {"videos": [{"path": "a.png", "bytes": None}]}, "videos", "holds an object"),
        ("What?", {"images": ["a.png"]}, "images", "holds 1 for 0 times <image>"),
        ("<image><image>What?", {"images": ["a.png"]}, "images", "holds 1 for 2 times <image>"),
        ("<video>What?", {"videos": ["b.mp4"]}, "videos", "names 'b.mp4'"),
    ],
)
def test_what_is_missing_is_named(text: str, media: dict[str, Any], field: str, found: str, tmp_path: Path) -> None:
    wrong = read(ALPACA, alpaca(text, **media), tmp_path)
    assert isinstance(wrong, RecordError)
    assert wrong.field == field
    assert found in wrong.found


def test_places_are_counted_in_all_turns(tmp_path: Path) -> None:
    talk = [{"from": "human", "value": "<image>What?"}, {"from": "gpt", "value": "A cat."}]
    assert isinstance(read(SHAREGPT, {"talk": talk, "images": ["a.png"]}, tmp_path), TrainingRow)
    assert isinstance(read(SHAREGPT, {"talk": talk * 2, "images": ["a.png"]}, tmp_path), RecordError)


def test_each_answer_of_a_pair_has_its_own_places(tmp_path: Path) -> None:
    columns = {"prompt": "q", "chosen": "good", "rejected": "bad", "images": "images"}
    entry = {"ranking": True, "columns": columns}
    pair = {"q": "Draw a cat.", "good": "<image>Here.", "bad": "There: <image>", "images": ["a.png"]}
    assert isinstance(read(entry, pair, tmp_path), TrainingRow)
    wrong = read(entry, {**pair, "bad": "No."}, tmp_path)
    assert isinstance(wrong, RecordError)
    assert wrong.found == "holds 1 for 0 times <image> in the text"


def test_a_file_may_lie_where_the_engine_is_started(tmp_path: Path) -> None:
    data, here = tmp_path / "data", tmp_path / "here"
    for folder in (data, here / "images"):
        folder.mkdir(parents=True)
    (here / "images/b.png").touch()
    record = alpaca("<image>What?", images=["images/b.png"])
    assert isinstance(require_media(schema_of(ALPACA), data, here).read(record), TrainingRow)
    assert isinstance(require_media(schema_of(ALPACA), data).read(record), RecordError)


def test_a_file_that_comes_later_is_found(tmp_path: Path) -> None:
    record = alpaca("<image>What?", images=["later.png"])
    assert isinstance(read(ALPACA, record, tmp_path), RecordError)
    (tmp_path / "later.png").touch()
    assert isinstance(read(ALPACA, record, tmp_path), TrainingRow)


def test_a_registration_without_media_is_left_as_it_is(tmp_path: Path) -> None:
    schema = schema_of(None)
    assert require_media(schema, tmp_path) is schema
