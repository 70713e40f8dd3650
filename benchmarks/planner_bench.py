"""Regret of random search, TPE, the offline policy and, with CHAT_MODEL, a chat model; `make bench-planner` runs it.

    python benchmarks/planner_bench.py                  fit, simulate, a few real experiments; minutes
    python benchmarks/planner_bench.py --collect 60     real runs for the surface, up to 60 a task; an hour or two a task
    python benchmarks/planner_bench.py --verify 3 --tasks till11   what three surfaces call best, trained for real
    python benchmarks/planner_bench.py --best 10        what the surface calls best on the seeds behind it, up to 10 runs a task
    python benchmarks/planner_bench.py --collect 60 --tasks till3 --minutes 30 --home /tmp/till
                                                        one task alone, for so long; a second process may take another

    python benchmarks/planner_bench.py --short 16       16 of each task's recorded recipes again, with a quarter of their steps
    python benchmarks/planner_bench.py --table          the table of moves that the policy ships

Writes `benchmarks/out/planner.json`, the tables of `docs/planner_bench.md` and its plot. Exit status 1 with `--check` when a
goal is missed.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE))  # PYTHONSAFEPATH leaves a script's own folder out

from planner.arena import home, site  # noqa: E402
from planner.collect import RUNS, SHORT, collect, known, shortened  # noqa: E402
from planner.made_task import family  # noqa: E402
from planner.play import UNSEEN, Bench, Extent  # noqa: E402
from planner.real import really  # noqa: E402
from planner.report import draw, rows, told, write_page  # noqa: E402
from planner.short import agreements, chosen  # noqa: E402
from planner.tasks import FAMILIES  # noqa: E402
from planner.verify import record_best, verify  # noqa: E402
from planner.verify import told as verified  # noqa: E402

from tuneloop.agents.policy.move_table import FILE  # noqa: E402
from tuneloop.core.files import write_json  # noqa: E402

OUT = HERE / "out" / "planner.json"
DOCS = HERE.parent / "docs"
COLLECTED = ("till3", "stories3", "choice3", "chains3")


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--collect", type=int, default=0, metavar="N", help="make real runs up to N a task, nothing else"
    )
    parser.add_argument(
        "--short",
        type=int,
        default=0,
        metavar="N",
        help="run N recorded recipes a task with a quarter of their steps, nothing else",
    )
    parser.add_argument(
        "--minutes", type=float, metavar="M", help="with --collect, --short or --best: no run is begun later than that"
    )
    parser.add_argument(
        "--real", type=int, default=2, metavar="N", help="real experiments of policy and random (default 2)"
    )
    parser.add_argument("--trials", type=int, nargs=2, default=[200, 30], metavar=("RANDOM", "POLICY"))
    tasks = f"seeds to play on (default {' '.join(UNSEEN)}), with --collect, --short or --best to run on ({' '.join(COLLECTED)})"
    parser.add_argument("--tasks", nargs="+", help=tasks)
    parser.add_argument("--home", type=Path, default=HERE / "out" / "planner-home", help="where runs are made")
    parser.add_argument("--docs", type=Path, default=DOCS, help="where planner_bench.md and its plot are")
    parser.add_argument("--out", type=Path, default=OUT, help=f"rows as JSON (default: {OUT})")
    parser.add_argument(
        "--table", action="store_true", help="learn the table of moves that is shipped from all real runs, nothing else"
    )
    parser.add_argument(
        "--verify",
        type=int,
        default=0,
        metavar="N",
        help="train for real what N of the surfaces call best, nothing else",
    )
    parser.add_argument(
        "--best",
        type=int,
        default=0,
        metavar="N",
        help="train what the surface calls best, up to N times a task, and record it, nothing else",
    )
    parser.add_argument("--check", action="store_true", help="exit status 1 when a goal is missed")
    given = parser.parse_args()
    if wrong := [name for name in given.tasks or () if family(name) not in FAMILIES or name == family(name)]:
        parser.error(
            f"--tasks: {', '.join(wrong)}; right is a family and a seed, families are {', '.join(FAMILIES)}: stories11"
        )
    return given


def say(text: str) -> None:
    """One line of progress."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def more_runs(given: argparse.Namespace, clock: Callable[[], float] = time.monotonic) -> None:
    """A run of each task in turn, so that what is there when it is stopped is even; what is recorded is not run again."""
    end = math.inf if given.minutes is None else clock() + 60 * given.minutes
    with ExitStack() as stack:
        names = given.tasks or COLLECTED
        sites = {name: stack.enter_context(site(name, home(given.home))) for name in names}
        for name, number in numbers(given, names):
            if clock() >= end:
                say(f"{given.minutes:g} minutes are over")
                return
            row = collect(sites[name], number, SHORT, shortened) if given.short else collect(sites[name], number)
            if row is not None:
                say(f"{row['task']} {number}: {row.get('value', row.get('failure'))}")


def best_runs(given: argparse.Namespace, bench: Bench) -> None:
    """A task after the other, until its best is known."""
    end = math.inf if given.minutes is None else time.monotonic() + 60 * given.minutes
    for task in given.tasks or COLLECTED:
        for _ in range(given.best):
            if time.monotonic() >= end:
                say(f"{given.minutes:g} minutes are over")
                return
            if (found := record_best(bench, task)) is None:
                say(f"{task}: what the surface calls best is recorded")
                break
            say(f"{task}: {found[0]:.1f} by the surface, {found[1].get('value', found[1].get('failure'))}")


def numbers(given: argparse.Namespace, names: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Which run of which task comes next."""
    if given.short:
        lists = [[(name, number) for number in chosen(known(), name, given.short)] for name in names]
        yield from (one for turn in itertools.zip_longest(*lists) for one in turn if one)
    else:
        yield from ((name, number) for number in range(given.collect + 1) for name in names)


def main() -> int:
    """All of it; the exit status."""
    given = arguments()
    if given.collect or given.short:
        more_runs(given)
        return 0
    random, policy = given.trials
    extent = Extent(tuple(given.tasks or UNSEEN), random=random, policy=policy)
    with ExitStack() as stack:
        run_tools = Bench(known(RUNS), home(given.home), stack, say)
        if given.table:
            write_json(FILE, run_tools.table().model_dump(mode="json"))
            return 0
        if given.best:
            best_runs(given, run_tools)
            return 0
        fitted = run_tools.fitted()
        if given.verify:
            for task in extent.tasks:
                for trained in verify(run_tools, task, fitted.surfaces[: given.verify]):
                    print(verified(task, trained), flush=True)
            return 0
        played = [run_tools.play(task, fitted, extent) for task in extent.tasks]
        found, short = rows(played, fitted), agreements(run_tools.runs)
        write_json(given.out, found)
        details = [{"task": one.task, "moves": one.moves, "projected": one.projected} for one in played]
        write_json(given.out.with_name("planner-details.json"), details)
        draw(given.docs / "planner_bench.svg", played)
        write_page(given.docs / "planner_bench.md", told(played, fitted, None, extent, short))
        if given.real:
            say(f"{extent.tasks[0]}: {given.real} real experiments of each")
            real = really(run_tools.at(extent.tasks[0])[0], given.real)
            write_page(given.docs / "planner_bench.md", told(played, fitted, real, extent, short))
    for one in found:
        print(
            f"{one['name']:<70} {one['value']:>8g} {one['unit']:<12} {one['goal']:>9}  {'ok' if one['ok'] else 'missed'}"
        )
    return int(given.check and not all(one["ok"] for one in found))


if __name__ == "__main__":
    sys.exit(main())
