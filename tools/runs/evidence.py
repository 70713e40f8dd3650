"""What an experiment left when it ended, by SHA-256 and signed by the home: a fork stands on nothing that was changed since."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.files import digest_file, json_text, read_json, write_json
from tuneloop.core.layout import RunFolder
from tuneloop.tools.housekeeping.disk import is_trash
from tuneloop.tools.housekeeping.pruning import NOTE
from tuneloop.tools.runs.signature import home_of, make_key, read_key, signature
from tuneloop.tools.weights.fingerprints import cached_digest

HASHES = "hashes.json"
# Logs, scratch and trainings with further seeds go on after the end; what went of the weights is noted beside them.
NO_EVIDENCE = frozenset({"jobs", "work", "seeds", NOTE, HASHES})
PRUNABLE = "model/"


def record_evidence(run: RunFolder, root: Path, **next_written: str) -> None:
    """Write `hashes.json` of an experiment's folder, or of the baseline's.

    Args:
        run: The run, whose home signs.
        root: The folder.
        next_written: Texts of files that are written right after, by stem: `experiment` is `experiment.json`.
    """
    memory = home_of(run).cache / "digests"
    found = {name: cached_digest(path, memory) for name, path in evidence_files(root) if not path.is_symlink()}
    found |= {f"{stem}.json": hashlib.sha256(text.encode()).hexdigest() for stem, text in next_written.items()}
    write_json(root / HASHES, {"files": found, "signature": signature_of(make_key(home_of(run)), found)})


def is_prepared(run: RunFolder) -> bool:
    """Whether everything that experiments stand on is there: without a benchmark no base model is measured."""
    proofs = (run.baseline / "scores.json", run.baseline / HASHES)
    return run.setup.is_file() and any(proof.is_file() for proof in proofs)


def check_evidence(run: RunFolder, root: Path) -> None:
    """Read every file that counts. Raises InvalidRequestError when one is not what was recorded, or was added, or is gone.

    Weights may be gone where pruning noted it.
    """
    compare_evidence(root, read_record(run, root))


def adopt_evidence(run: RunFolder, root: Path, kept: Callable[[str], bool]) -> None:
    """Sign anew what another home has signed, on its owner's word, of the files that are `kept` by their path in the run.

    Raises InvalidRequestError where they are not what was recorded.
    """
    recorded = stored_record(root)[0]
    place = root.relative_to(run.root).as_posix()
    found = {name: value for name, value in recorded.items() if kept(f"{place}/{name}")}
    compare_evidence(root, found)
    write_json(root / HASHES, {"files": found, "signature": signature_of(make_key(home_of(run)), found)})


def compare_evidence(root: Path, recorded: dict[str, str]) -> None:
    """Raises InvalidRequestError as `check_evidence`."""
    found = dict(evidence_files(root))
    pruned = (root / NOTE).is_file()
    gone = [name for name in recorded.keys() - found.keys() if not (pruned and name.startswith(PRUNABLE))]
    if gone:
        raise changed(root, min(gone), "is gone")
    for name, path in found.items():
        if path.is_symlink() or name not in recorded:
            raise changed(root, name, "was added")
        if digest_file(path) != recorded[name]:
            raise changed(root, name, "was changed")


def read_record(run: RunFolder, root: Path) -> dict[str, str]:
    """What was recorded. Raises InvalidRequestError when nothing was, or not by this home."""
    key = read_key(home_of(run))
    files, signed = stored_record(root)
    if key is None or not hmac.compare_digest(signed.encode(), signature_of(key, files).encode()):
        raise changed(root, HASHES, "was not written by this home")
    return files


def stored_record(root: Path) -> tuple[dict[str, str], str]:
    """Files and signature, whoever signed. Raises InvalidRequestError."""
    try:
        told = read_json(root / HASHES)
        return {str(name): str(value) for name, value in told["files"].items()}, str(told["signature"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as e:
        raise changed(root, HASHES, "cannot be read") from e


def evidence_files(root: Path) -> Iterator[tuple[str, Path]]:
    """Names and places of the files that count, and of links instead of files or folders."""
    for folder, names, files in os.walk(root):
        here = Path(folder)
        names[:] = [name for name in names if not is_skipped(root, here / name)]
        links = [name for name in names if (here / name).is_symlink()]
        for path in (here / name for name in (*files, *links)):
            if not is_skipped(root, path):
                yield str(path.relative_to(root)), path


def is_skipped(root: Path, path: Path) -> bool:
    """Whether it is no evidence."""
    return is_trash(path) or (path.parent == root and path.name in NO_EVIDENCE)


def signature_of(key: bytes, files: dict[str, str]) -> str:
    """Of what was recorded."""
    return signature(key, b"hashes.json", json_text(dict(sorted(files.items()))).encode())


def changed(root: Path, name: str, how: str) -> InvalidRequestError:
    """What is said of evidence that does not hold."""
    return InvalidRequestError(
        f"{root / name}: {how} since this was finished: put it back, or fork from before it (--at)"
    )
