"""Images, videos and audios that records name: are the files there, and does the text have a place for each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tuneloop.tools.data_gate.records import RecordError, Schema, TrainingRow, json_kind

# Column of a registration → what stands for one of its files in the text.
PLACES = {"images": "<image>", "videos": "<video>", "audios": "<audio>"}
EXPECTED = "a list of files, relative to the folder of the data"


def require_media(schema: Schema, *folders: Path) -> Schema:
    """The schema with a reader that refuses records whose files are below none of `folders`, or have no place.

    The engine looks below its folder of media, then where it was started.
    """
    named = {name: place for role, place in PLACES.items() if (name := getattr(schema.columns, role))}
    if not named:
        return schema

    def read(record: Any) -> TrainingRow | RecordError:
        row = schema.read(record)
        if isinstance(row, RecordError):
            return row
        wrong = (_media_problem(row, name, place, folders) for name, place in named.items())
        return next((problem for problem in wrong if problem), row)

    return replace(schema, read=read)


def _media_problem(row: TrainingRow, name: str, place: str, folders: tuple[Path, ...]) -> RecordError | None:
    """The engine takes one file for a list of one, and a list of lists for the frames of videos."""
    given = row.kept.get(name)
    files = given if isinstance(given, list) else [given] if given else []
    frames = [part for file in files for part in (file if isinstance(file, list) else [file])]
    for file in frames:
        if place == PLACES["images"] and _is_stored_image(file):
            continue
        if not isinstance(file, str):
            return RecordError(name, f"holds {json_kind(file)}", EXPECTED)
        if not any(_is_file(folder / file) for folder in folders):
            return RecordError(name, f"names {file!r}, which is no file in {folders[0]}", EXPECTED)
    # Chosen and rejected each follow the whole prompt, and each must have a place for every file.
    asked = sum(text.count(place) for text in row.turns)
    places = (asked + answer.count(place) for answer in row.answers or ("",))
    if (wrong := next((n for n in places if n != len(files)), None)) is not None:
        return RecordError(name, f"holds {len(files)} for {wrong} times {place} in the text", f"one {place} for each")
    return None


def _is_stored_image(value: Any) -> bool:
    """Whether it is an image as the library datasets stores it: {bytes, path}, one of them null."""
    return isinstance(value, dict) and "bytes" in value and (value["bytes"] is not None or bool(value.get("path")))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False
