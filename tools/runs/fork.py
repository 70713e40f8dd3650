"""Branch off: a new run that stands on another one's setup, baseline and first experiments, and goes its own way."""

from __future__ import annotations

import math
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from tuneloop.core.directive import Approve, Avoid, Bound, Directive, Focus, Keep, Sources, Use
from tuneloop.core.directive_log import append_row, open_directives
from tuneloop.core.errors import InvalidRequestError
from tuneloop.core.experiment import Experiment, Journal
from tuneloop.core.files import fsync_path, fsync_tree, read_field, read_model, write_json
from tuneloop.core.layout import Home, RunFolder
from tuneloop.core.run_spec import RunSpec
from tuneloop.tools.evaluation.test_access_log import has_test_access
from tuneloop.tools.housekeeping.disk import TRASH, bytes_below, check_room, remove_path
from tuneloop.tools.housekeeping.pruning import read_note
from tuneloop.tools.runs.evidence import check_evidence
from tuneloop.tools.runs.journal import load_journal
from tuneloop.tools.runs.manifest import read_spec, write_manifest
from tuneloop.tools.runs.messages import put
from tuneloop.tools.runs.request import check_run_name, free_name
from tuneloop.tools.runs.signature import check_signed, write_signed_setup
from tuneloop.tools.runs.spec import checked_spec

BESIDE = (
    "selection.json",
    "model_choice.json",
    "setup.json",
    "datasets",
    "baseline",
)  # what is found again is not taken along
LASTING = (Approve, Avoid, Bound, Focus, Keep, Sources)
LINKED = 1 << 20  # bytes of a file from which on it is shared: weights and data, which nobody writes in place


class Fork(BaseModel):
    """`fork_run.json`: the run that this one stands on, up to and with experiment `at`; and what that run stood on itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str
    at: int
    before: tuple[str, ...] = ()


def fork_run(
    home: Home,
    parent: RunFolder,
    at: int,
    name: str | None,
    *,
    loop_n: int | None,
    timeout: float | None,
    after_test: bool = False,
) -> RunFolder:
    """A new run whole on disk, or none.

    `loop_n`, `timeout`: more experiments and seconds (`inf`: no limit); None: as the parent was given.

    `after_test`: the lineage may have opened its sealed test; then the new run's report claims nothing.

    Raises InvalidRequestError in one line when something that it needs is not there, or is not what was left at its end.
    """
    check_signed(parent)
    journal = kept_experiments(parent, at)
    before = (*read_fork(parent).before, read_fork(parent).run) if parent.fork.is_file() else ()
    if not after_test and has_test_access(home, (parent.id, *before)):
        who = f"run {parent.id}, or one that it stands on," if before else f"run {parent.id}"
        raise InvalidRequestError(
            f"{who} has opened its sealed test: to go on knowing its result, add --after-test; the new run's "
            "report then claims nothing"
        )
    check_run_name(name or "")
    run = home.run(name or free_name(home, f"{parent.id}-at-{at}"))
    if run.root.exists():
        raise InvalidRequestError(f"run {run.id!r} exists; choose another --run-id")
    check_room(home.runs, sum(map(bytes_below, fork_parts(parent, at))), "the fork")
    part = home.runs / f".{run.id}.{os.getpid()}{TRASH}"
    try:
        made = RunFolder(part)
        for place in fork_parts(parent, at):
            copy_or_link(place, part / place.relative_to(parent.root))
        kept_experiments(parent, at)  # nothing was pruned meanwhile
        for root in (made.baseline, *(made.experiment(number).root for number in range(1, at + 1))):
            check_evidence(made, root)
        write_json(made.fork, Fork(run=parent.id, at=at, before=before).model_dump(mode="json"))
        copy_directives(parent, made)
        write_manifest(made, fork_budget(given_limits(parent), made, journal, loop_n, timeout))
        write_signed_setup(made, (part / "setup.json").read_text(encoding="utf-8"))
        fsync_tree(part)
        part.rename(run.root)
    finally:
        remove_path(part)
    fsync_path(home.runs)
    return run


def send_first_message(run: RunFolder, text: str) -> None:
    """The first message to a fresh fork."""
    put(run.inbox, do="say", text=text)


def kept_experiments(parent: RunFolder, at: int) -> Journal:
    """The experiments that a fork keeps. Raises InvalidRequestError when some are missing, or the best one's weights."""
    done = load_journal(parent).experiments
    if not read_spec(parent).evaluated:
        raise InvalidRequestError(
            f"run {parent.id} evaluates nothing: an experiment more could not be compared; right is a run with a benchmark"
        )
    if not (parent.setup.is_file() and (parent.baseline / "scores.json").is_file()):
        raise InvalidRequestError(f"run {parent.id} has not measured its base model yet: nothing to fork from")
    if at > len(done):
        raise InvalidRequestError(
            f"--at {at}: run {parent.id} has {len(done)} experiments that are over; right is 0 to {len(done)}"
        )
    kept = Journal(experiments=done[:at])
    best = kept.best
    if best is not None and read_note(parent.experiment(best.number)).weights:
        raise InvalidRequestError(
            f"--at {at}: the best until then is experiment {best.number}, whose weights were pruned "
            f"(FT_KEEP_MODELS, or `delete`); {fork_points(parent, done)}"
        )
    return kept


def fork_points(parent: RunFolder, done: tuple[Experiment, ...]) -> str:
    """Where one can fork."""
    found = [0]
    for number in range(1, len(done) + 1):
        best = Journal(experiments=done[:number]).best
        if best is None or not read_note(parent.experiment(best.number)).weights:
            found.append(number)
    return f"right is one of {', '.join(map(str, found))}"


def fork_parts(parent: RunFolder, at: int) -> list[Path]:
    """What a fork stands on; trainings with further seeds, whose weights are gone, are its own."""
    experiments = [parent.experiment(number).root for number in range(1, at + 1)]
    places = [
        *(parent.root / name for name in BESIDE),
        *(place for root in experiments for place in sorted(root.iterdir()) if place.name != "seeds"),
    ]
    return [place for place in places if os.path.lexists(place)]


def copy_or_link(place: Path, to: Path) -> None:
    """Files that are never written again: large ones shared by hard links, small ones copied; either run may remove its own."""
    for file, here in entries(place, to):
        mode = file.lstat().st_mode
        here.parent.mkdir(parents=True, exist_ok=True)
        if stat.S_ISLNK(mode):
            here.symlink_to(file.readlink())
        elif stat.S_ISREG(mode) and not is_linkable(file, here):
            shutil.copy2(file, here)


def entries(place: Path, to: Path) -> Iterator[tuple[Path, Path]]:
    """Every file and link below, what removals left aside, and where it comes to lie."""
    if place.is_symlink() or not place.is_dir():
        yield place, to
        return
    for folder, names, files in os.walk(place):
        names[:] = [name for name in names if not name.endswith(TRASH)]
        for name in (*files, *(n for n in names if (Path(folder) / n).is_symlink())):
            if not name.endswith(TRASH):
                file = Path(folder) / name
                yield file, to / file.relative_to(place)


def is_linkable(file: Path, here: Path) -> bool:
    """Whether it could be linked; small files are not worth it."""
    if file.stat().st_size < LINKED:
        return False
    try:
        here.hardlink_to(file)
    except OSError:  # another disk, or one without links
        return False
    return True


def copy_directives(parent: RunFolder, made: RunFolder) -> None:
    """What holds in every experiment holds in the fork's, too; budgets and ends are its own."""
    for directive in open_directives(parent.directives):
        lasting = isinstance(directive.command, LASTING) or (
            isinstance(directive.command, Use) and directive.command.always
        )
        if lasting:
            number = str(len(open_directives(made.directives)) + 1)
            append_row(made.directives, Directive(id=number, text=directive.text, command=directive.command))


def fork_budget(spec: RunSpec, made: RunFolder, journal: Journal, loop_n: int | None, timeout: float | None) -> RunSpec:
    """What it stands on is paid: experiments and time are counted from there."""
    more, longer = loop_n or spec.loop_n, timeout or spec.timeout
    limits = {
        "loop_n": None if more is None else len(journal.experiments) + more,
        "timeout": None if longer in (None, math.inf) else seconds_until(made, journal) + longer,
    }
    return checked_spec({**spec.model_dump(), **limits})


def given_limits(parent: RunFolder) -> RunSpec:
    """The parent's spec with what it was given itself: without experiments and time of what it stands on."""
    spec = read_spec(parent)
    if not parent.fork.is_file():
        return spec
    at = read_fork(parent).at
    before = seconds_until(parent, Journal(experiments=load_journal(parent).experiments[:at]))
    return spec.model_copy(
        update={
            "loop_n": spec.loop_n and spec.loop_n - at,
            "timeout": spec.timeout and spec.timeout - before,
        }
    )


def seconds_until(run: RunFolder, journal: Journal) -> float:
    """What the baseline and these experiments took."""
    prepared = run.baseline / "spent.json"
    return (read_field(prepared, "seconds", float) if prepared.is_file() else 0.0) + sum(
        e.seconds for e in journal.experiments
    )


def read_fork(run: RunFolder) -> Fork:
    """What a fork stands on."""
    return read_model(run.fork, Fork)
