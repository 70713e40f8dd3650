"""Judge replies with any scorer; standard library only, engines load this file by path.

A scorer is a module with `judge(gold, reply)`, which gives `parsed` (the answer found, None: unreadable), `value` (share
of the metric from 0 to 1) and whatever its `summary(rows)` needs for further metrics. The plain kinds have one scorer in
common, `scoring.py`. A scorer with `FILES` (path in a folder of the user's: SHA-256, "" for any content) cannot judge without
them: its `use(folder)` is called before the first reply.
"""

from __future__ import annotations

import hashlib
import importlib.util
import math
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

Verdict = dict[str, Any]
Judge = Callable[[str, str], Verdict]
OURS = frozenset({"parsed", "value"})


def judge_of(scoring: str, kind: str, scorer: str, files: str = "") -> Judge:
    """The judge of a kind of answer; `scorer` is the file of its own scorer, "" for the plain kinds of `scoring`.

    `files` is the folder with what some scorers need. Raises ValueError naming what is missing or wrong there.
    """
    if not scorer:
        return partial(load(Path(scoring)).judge, kind)
    module = load(Path(scorer))
    if hasattr(module, "FILES") and vars(module).get("used") != files:
        check_files(module.FILES, Path(files) if files else None)
        module.use(Path(files))
        vars(module)["used"] = files
    judge: Judge = module.judge
    return judge


def check_files(wanted: Mapping[str, str], folder: Path | None) -> None:
    """Raises ValueError in one line unless all files are in the folder, and are those that they should be."""
    places = {name: folder / name for name in wanted} if folder else {}
    if missing := [name for name in wanted if name not in places or not places[name].exists()]:
        where = f"TUNELOOP_SCORER_FILES={folder or ''}"
        raise ValueError(f"{where} lacks {', '.join(missing)}; docs/benchmarks.md says where they are from")
    for name, place in places.items():
        if wanted[name] and (found := hashed(place)) != wanted[name]:
            raise ValueError(f"{place} is another file: its SHA-256 is {found}, right is {wanted[name]}")


def hashed(file: Path) -> str:
    """SHA-256 of a file."""
    with file.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def judged(judge: Judge, gold: str, reply: str) -> Verdict:
    """The verdict on one reply; where the scorer fails the reply is wrong, and `error` says why."""
    try:
        found = checked(judge(gold, reply))
    except Exception as e:  # noqa: BLE001 - a stranger's text in a parser: the item is wrong and listed, the others count
        return {"parsed": None, "value": 0.0, "extra": {}, "error": f"{type(e).__name__}: {e}"[:200]}
    extra = {name: value for name, value in found.items() if name not in OURS}
    return {"parsed": found["parsed"], "value": float(found["value"]), "extra": extra, "error": ""}


def checked(found: Verdict) -> Verdict:
    """The verdict. Raises TypeError or ValueError when it is none."""
    parsed, value = found["parsed"], found["value"]
    if parsed is not None and not isinstance(parsed, str):
        raise TypeError("parsed is no text")
    if not math.isfinite(value) or not 0 <= value <= 1:
        raise ValueError(f"value is {value}; right is 0 to 1")
    if parsed is None and value > 0:
        raise ValueError("an unreadable reply has a value")
    return found


def summary(scorer: str, verdicts: Sequence[Verdict]) -> dict[str, float]:
    """Further metrics over all items; {} where the scorer has none."""
    told = getattr(load(Path(scorer)), "summary", None) if scorer else None
    if told is None:
        return {}
    rows = [{**v["extra"], "parsed": v["parsed"], "value": v["value"], "error": v["error"]} for v in verdicts]
    return {name: float(value) for name, value in told(rows).items()}


def load(path: Path) -> ModuleType:
    """A scorer from its file; those of one folder are one package, so that they may share a module.

    The package above it has `answer_matching` alone: `from ..answer_matching import number`.
    """
    above = f"tuneloop_scorers_{zlib.crc32(str(path.parent).encode())}"
    package = f"{above}.{path.parent.name}"
    if package not in sys.modules:
        for name, places in ((above, []), (package, [str(path.parent)])):
            sys.modules[name] = ModuleType(name)
            sys.modules[name].__path__ = places
        executed(f"{above}.answer_matching", Path(__file__).with_name("answer_matching.py"))
    name = f"{package}.{path.stem}"
    return sys.modules.get(name) or executed(name, path)


def executed(name: str, path: Path) -> ModuleType:
    """A module from its very file: a sandbox may show it and not its folder. Raises ImportError."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[name] = module
    return module
