"""Whole checkpoints: proved last, found again, broken ones put aside: `python lf_checkpoints.py offer OUT STEP`.

`offer` makes the newest whole checkpoint at or before STEP the model in OUT; exit status 3 when there is none.
Only the standard library and xxhash, which `datasets` brings: XXH3 reads 3 GB a CPU second, SHA-256 less than half.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import xxhash

PROOF, FINISHED = "proof.json", "finished.json"
NOTES = ("pulse.json", "cost.json")
LOGS = ("trainer_log.jsonl", "watch.jsonl")
NAME = re.compile(r"checkpoint-(\d+)")
STATE = "trainer_state.json"
RUNNING_LOSS = "running_loss.json"
# What only going on needs; everything else in a checkpoint is the model.
ONWARD = re.compile(
    r"optimizer\.(pt|bin)|scheduler\.pt|scaler\.pt|rng_state.*\.pth|training_args\.bin|running_loss\.json|processes\.json"
    r"|latest|zero_to_\w+\.py|pytorch_model_fsdp\.bin"
)
# Without these the engine goes on with another optimizer or other random numbers, and says nothing.
NEEDED = (r"optimizer\.pt|optimizer\.bin|global_step.*", r"scheduler\.pt", r"rng_state.*\.pth", STATE)
UNDONE = "checkpoint-is-incomplete.txt"
WEIGHTS = re.compile(r"(model|adapter_model|pytorch_model)(-\d+-of-\d+)?\.(safetensors|bin)(\.index\.json)?")
NONE_WHOLE = 3


def digest(path: Path) -> str:
    """Checksum of a file, read in pieces."""
    h = xxhash.xxh3_64()
    with path.open("rb") as f:
        while piece := f.read(1 << 22):
            h.update(piece)
    return h.hexdigest()


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write(path: Path, value: object) -> None:
    """JSON, whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    with part.open("w") as f:
        json.dump(value, f)
        f.flush()
        os.fsync(f.fileno())
    part.replace(path)
    sync(path.parent)


def prove(folder: Path, files: Iterable[Path], name: str) -> None:
    """Make `files` durable, then write down sizes and checksums as `folder/name`, last."""
    found = sorted(files)
    for path in found:
        sync(path)
    for place in {path.parent for path in found} | {folder}:
        sync(place)
    rows = {str(p.relative_to(folder)): [p.stat().st_size, digest(p)] for p in found}
    write(folder / name, {"files": rows})


def prove_checkpoint(folder: Path) -> None:
    """The proof of a checkpoint: every file in it."""
    prove(folder, (p for p in folder.rglob("*") if p.is_file() and p.name != PROOF), PROOF)
    sync(folder.parent)


def prove_finished(out: Path) -> None:
    """The proof of a whole output: what it holds besides logs and checkpoints."""
    prove(out, (p for p in out.iterdir() if p.is_file() and model_file(p.name)), FINISHED)


def model_file(name: str) -> bool:
    """Whether a file of an output folder is part of the model or its state, not a log or a proof."""
    return not name.startswith(".") and name not in (PROOF, FINISHED, *NOTES) and not name.endswith(".jsonl")


def flaw(folder: Path, name: str = PROOF) -> str:
    """What speaks against a proof, "" when it holds."""
    try:
        files = json.loads((folder / name).read_text())["files"]
    except FileNotFoundError:
        return f"no {name}"
    except (ValueError, KeyError, TypeError):
        return f"{name} is no proof"
    for path, (size, _) in files.items():
        place = folder / path
        if not place.is_file():
            return f"{path} is gone"
        if place.stat().st_size != size:
            return f"{path} has {place.stat().st_size} bytes instead of {size}"
    # Sizes of all files first: a truncated file shows without reading any.
    return next((f"{path} changed" for path, (_, checksum) in files.items() if digest(folder / path) != checksum), "")


def checkpoint_flaw(folder: Path) -> str:
    """Why a checkpoint cannot be gone on from, "" when it is whole."""
    names = [p.name for p in folder.iterdir()]
    if UNDONE in names:
        return f"{UNDONE} is there"
    missing = [wanted for wanted in NEEDED if not any(re.fullmatch(wanted, name) for name in names)]
    return f"nothing like {missing[0]}" if missing else flaw(folder)


def step_of(folder: Path) -> int:
    """The number in its name."""
    return int(folder.name.rpartition("-")[2])


def checkpoints(out: Path) -> list[Path]:
    """Newest first, whole or not."""
    found = [p for p in out.glob("checkpoint-*") if p.is_dir() and NAME.fullmatch(p.name)]
    return sorted(found, key=step_of, reverse=True)


def newest_whole(out: Path) -> Path | None:
    """The newest whole checkpoint; broken ones above it are put aside where the engine does not look."""
    for folder in checkpoints(out):
        why = checkpoint_flaw(folder)
        if not why:
            return folder
        put_aside(folder, why)
    return None


def put_aside(folder: Path, why: str) -> Path:
    """Rename to `broken-checkpoint-N`, and say why."""
    place = folder.with_name(f"broken-{folder.name}")
    shutil.rmtree(place, ignore_errors=True)
    folder.rename(place)
    sync(place.parent)
    print(f"{folder.name} is put aside: {why}", flush=True)
    return place


def promote(checkpoint: Path, out: Path) -> None:
    """Make the checkpoint's model the one in `out`; its state last, then the proof."""
    drop_weights(out)
    names = [p.name for p in checkpoint.iterdir() if p.is_file() and not ONWARD.fullmatch(p.name) and p.name != PROOF]
    for name in sorted(names, key=lambda n: n == STATE):
        part = out / f".{name}.part"
        part.unlink(missing_ok=True)
        try:
            os.link(checkpoint / name, part)
        except OSError:
            shutil.copyfile(checkpoint / name, part)
        part.replace(out / name)
    prove_finished(out)


def is_done(out: Path, *, best_at_end: bool = False) -> bool:
    """Whether nothing is left to train; else the folder is made ready to begin or to go on.

    `best_at_end`: the model is the best of several states, not the last: the last step is made again.
    """
    if not flaw(out, FINISHED):
        print("this output is finished", flush=True)
        return True
    for name in LOGS:
        mend(out / name)
    newest = newest_whole(out)
    state = json.loads((newest / STATE).read_text()) if newest else {}
    if newest and state["global_step"] >= state["max_steps"]:
        if not best_at_end:
            promote(newest, out)  # going on from the last step would take one step too many
            return True
        newest.rename(newest.with_name(f"last-{newest.name}"))
    drop_weights(out)
    return False


def mend(log: Path) -> None:
    """Cut a torn last line off, or the next one would be glued to it."""
    if log.is_file():
        whole = log.read_bytes().rpartition(b"\n")
        if whole[2]:
            log.write_bytes(whole[0] + whole[1])


def drop_weights(out: Path) -> None:
    """Remove weights and state of an unfinished end: the engine would refuse to begin beside them."""
    for path in out.iterdir():
        if path.is_file() and (WEIGHTS.fullmatch(path.name) or path.name in (STATE, FINISHED)):
            path.unlink()


def offer(out: Path, last: int) -> int:
    """Promote the newest whole checkpoint at or before step `last`; returns the exit status."""
    for folder in checkpoints(out):
        if step_of(folder) > last:
            continue
        why = checkpoint_flaw(folder)
        if not why:
            promote(folder, out)
            return 0
        print(f"{folder.name} is not whole: {why}", flush=True)
    return NONE_WHOLE


if __name__ == "__main__":
    sys.exit(offer(Path(sys.argv[2]), int(sys.argv[3])))
