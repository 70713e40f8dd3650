"""What a model's folder holds, as a short hash; large files are read once and known again by their place and times."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from tuneloop.core.files import digest, digest_file, read_json, write_json

WEIGHTS = ("config.json", "generation_config.json", "adapter_config.json", "*.safetensors", "*.safetensors.index.json")
TOKENIZER = (
    "tokenizer*", "special_tokens_map.json", "added_tokens.json", "chat_template*", "vocab.*", "merges.txt", "*.model"
)  # fmt: skip
LARGE = 1 << 20
# A file changed twice within the clock's step would look the same; git waits the same way.
SETTLED = 2.0


def model_fingerprint(model: Path, memory: Path | None = None) -> str:
    """Hash of a model folder's weights, configuration and tokenizer; other files do not count.

    `memory` is a folder that keeps digests of large files between processes; it may be deleted at any time.
    """
    files = sorted({path for pattern in (*WEIGHTS, *TOKENIZER) for path in model.glob(pattern) if path.is_file()})
    return digest(*(f"{path.name}:{cached_digest(path, memory)}" for path in files))


def cached_digest(path: Path, memory: Path | None) -> str:
    """SHA-256 of the file, remembered under place, size, times and inode when it is large and has been still."""
    seen = path.stat()
    if memory is None or seen.st_size < LARGE:
        return digest_file(path)
    place = str(path.resolve())
    mark: list[object] = [place, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino, seen.st_dev]
    note = memory / f"{digest(place)}.json"
    found = read_cached_digest(note, mark)
    if found is not None:
        return found
    began = time.time()
    fresh = digest_file(path)
    if path.stat() == seen and began - max(seen.st_mtime, seen.st_ctime) > SETTLED:
        write_cached_digest(note, {"mark": mark, "sha256": fresh})
    return fresh


def read_cached_digest(note: Path, mark: list[object]) -> str | None:
    """The remembered digest if it is of this very file."""
    try:
        told = read_json(note)
        return str(told["sha256"]) if told["mark"] == mark else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_cached_digest(note: Path, value: dict[str, object]) -> None:
    """Keep the note; where that fails the file is read again next time."""
    with contextlib.suppress(OSError):
        write_json(note, value)
