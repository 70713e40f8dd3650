"""Every attack gets through where nothing holds it, is held by each sandbox, and gets through without its guard."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from tuneloop.core.job import Sandbox
from tuneloop.sandboxes.bubblewrap import BubblewrapSandbox
from tuneloop.sandboxes.cgroups import find
from tuneloop.sandboxes.process import ProcessSandbox

from .corpus import ALONE, TOGETHER, guarded
from .declare import Attack
from .guards import taken_out
from .resources import LIMITS

# Only cgroups hold these.
HOLES = set() if find()[1] else {"allocate_in_a_file_of_memory", "allocate_in_shared_memory"}
WALLS: dict[str, Callable[[], Sandbox]] = {"bubblewrap": BubblewrapSandbox}
# Only resource limits: the process sandbox claims nothing else.
REASONS = {"seconds": "timeout", "log": "finished"}
LIMITED: dict[str, Callable[[], Sandbox]] = {
    "process": functools.partial(ProcessSandbox, allow_unsandboxed=True),
    **WALLS,
}
GROUPS = guarded()


def named(attack: Attack) -> str:
    return attack.name


def expected(request, attack: Attack) -> None:
    """A known hole is told as one."""
    if attack.name in HOLES:
        request.applymarker(pytest.mark.xfail(reason="not held yet", strict=False))


def removable(kind: str) -> list[tuple[str, ...]]:
    """Guards that can be taken out of a sandbox."""
    return [guards for guards, attacks in GROUPS.items() if any(kind not in attack.kept for attack in attacks)]


def joined(guards: tuple[str, ...]) -> str:
    return " and ".join(guards)


@pytest.fixture(scope="module")
def bare(arena):
    """What got through where nothing holds it."""
    return arena(*TOGETHER).attack_bare()


@pytest.fixture(scope="module", params=WALLS)
def walled(request, arena):
    """What got through a sandbox's walls."""
    made = arena(*TOGETHER)
    found = made.attack_in(WALLS[request.param]())
    assert made.end.ok, made.log
    return found


@pytest.mark.parametrize("attack", TOGETHER, ids=named)
def test_it_gets_through_where_nothing_holds_it(bare, attack):
    assert bare[attack.name]


@pytest.mark.parametrize("attack", TOGETHER, ids=named)
def test_it_is_held(request, walled, attack):
    expected(request, attack)
    assert walled[attack.name] == ""


@pytest.mark.parametrize(("kind", "guards"), [(kind, guards) for kind in WALLS for guards in removable(kind)], ids=str)
def test_it_gets_through_without_its_guard(arena, kind, guards):
    attacks = [attack for attack in GROUPS[guards] if kind not in attack.kept]
    made = arena(*attacks)
    with taken_out(kind, guards, made.root) as sandbox:
        found = made.attack_in(sandbox)
    assert [name for name in found if not found[name]] == [], made.log


@pytest.mark.parametrize("attack", ALONE, ids=named)
def test_a_bomb_goes_off_where_no_limit_holds_it(arena, attack):
    assert arena(attack).attack_in(LIMITED["process"]())[attack.name]


@pytest.mark.parametrize("attack", ALONE, ids=named)
@pytest.mark.parametrize("kind", LIMITED)
def test_a_bomb_is_held_by_its_limit(request, arena, kind, attack):
    expected(request, attack)
    limit = attack.guards[0].split()[0]
    made = arena(attack)
    found = made.attack_in(LIMITED[kind](), **{limit: LIMITS[limit], "grace": 0.2})
    assert (made.end.reason, found[attack.name]) == (REASONS.get(limit, limit), "")
