"""Every attack gets through where nothing holds it, is held by each sandbox, and gets through without its guard."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from tuneloop.core.job import Sandbox
from tuneloop.sandboxes.bubblewrap import BubblewrapSandbox
from tuneloop.sandboxes.cgroups import find_base
from tuneloop.sandboxes.docker import DockerSandbox
from tuneloop.sandboxes.landlock import LandlockSandbox
from tuneloop.sandboxes.process import ProcessSandbox

from ..conftest import ON, ON_NODES, PROBES
from .corpus import ALONE, TOGETHER, guarded
from .declare import Attack
from .guards import removable, taken_out
from .resources import LIMITS


def named(attack: Attack) -> str:
    return attack.name


# Not held, by kind: only a cgroup would.
MEMORY = set() if find_base()[1] else {"allocate_in_a_file_of_memory", "allocate_in_shared_memory"}
ENGINES_SHARED_MEMORY = "read_shared_memory_of_others"
NO_NAMESPACE = {"read_a_strangers_command_line"}  # /proc is the machine's
HOLES: dict[str, set[str]] = {
    "process": MEMORY,
    "bubblewrap": MEMORY,
    "docker": set(),
    "landlock": (MEMORY - {"allocate_in_shared_memory"}) | NO_NAMESPACE,
}
WALLS: dict[str, Callable[[], Sandbox]] = {
    "bubblewrap": BubblewrapSandbox,
    "docker": DockerSandbox,
    "landlock": LandlockSandbox,
}
# Only resource limits: the process sandbox claims nothing else.
REASONS = {"seconds": "timeout", "log": "finished"}
REFUSED = {("landlock", "allocate_in_shared_memory")}  # held by no limit: generated code has no /dev/shm
LIMITED: dict[str, Callable[[], Sandbox]] = {
    "process": functools.partial(ProcessSandbox, allow_generated=True),
    **WALLS,
}
GROUPS = guarded()
# A forked job is walled in by Landlock, also in the process sandbox; the worker around it sees the whole arena.
LANDLOCK = [attack for attack in TOGETHER if attack.guards in (("mounts",), ("read-only",))]
# Modes, times, and sockets with a name: of the run's folder only, where nobody listens but workers who look who calls.
NO_RULE = {"open_the_given_folder_to_everybody", "turn_back_the_clock_of_a_given_file", "connect_to_an_agents_socket"}
# Held by nothing but a sandbox, and seen by nothing but what it did: so that what is held on nodes could be done there.
PLAIN = {attack.name for attack in TOGETHER if attack.guards in (("mounts",), ("read-only",), ("network",))}
KNOWN = {"bubblewrap": set(), "landlock": NO_NAMESPACE | {ENGINES_SHARED_MEMORY}, "process": {*map(named, TOGETHER)}}
WARM = {"process": LANDLOCK, "bubblewrap": TOGETHER, "docker": TOGETHER, "landlock": TOGETHER}


def expected(request, kind: str, attack: Attack) -> None:
    """A known hole is told as one."""
    if attack.name in HOLES[kind]:
        request.applymarker(pytest.mark.xfail(reason="not held yet", strict=False))


def opened(request, kind: str) -> Sandbox:
    """A sandbox with limits, here or on nodes."""
    name, _, executor = kind.partition(ON)
    there(request, name)
    made = LIMITED[name]()
    return request.getfixturevalue("on_nodes")(executor, made) if executor else made


def there(request, kind: str) -> None:
    """A kind that cannot run is a failure."""
    if kind == "docker":
        request.getfixturevalue("docker_host")
    problem = PROBES[kind]()
    assert problem is None, problem


def without() -> list[Any]:
    """Each sandbox without what holds some attacks, where that can be shown."""
    return [
        pytest.param(kind, guards, id=f"{kind} without {joined(guards)}")
        for kind in WALLS.keys() - {"landlock"}  # its guards are tried one by one in test_landlock.py
        for guards, attacks in GROUPS.items()
        if any(removable(kind, attack) for attack in attacks)
    ]


def joined(guards: tuple[str, ...]) -> str:
    return " and ".join(guards)


@pytest.fixture(scope="module")
def bare(shared_arena):
    """What got through where nothing holds it."""
    return shared_arena(*TOGETHER).attack_bare()


@pytest.fixture(scope="module", params=WALLS)
def walled(request, shared_arena):
    """What got out of a sandbox."""
    there(request, request.param)
    made = shared_arena(*TOGETHER)
    found = made.attack_in(WALLS[request.param]())
    assert made.end.ok, made.log
    return request.param, found


@pytest.fixture(scope="module")
def forked(request, shared_arena):
    """What got through from a job that a worker forked, by kind."""

    @functools.cache
    def by_kind(kind: str) -> dict[str, str]:
        there(request, kind)
        made = shared_arena(*WARM[kind])
        found: dict[str, str] = made.attack_warm(LIMITED[kind]())
        assert made.end.ok, made.log
        assert "cold start" not in made.log
        return found

    return by_kind


@pytest.mark.parametrize("attack", TOGETHER, ids=named)
def test_it_gets_through_where_nothing_holds_it(bare, attack):
    assert bare[attack.name]


@pytest.mark.parametrize("attack", TOGETHER, ids=named)
def test_it_is_held(request, walled, attack):
    kind, found = walled
    expected(request, kind, attack)
    assert found[attack.name] == ""


@pytest.mark.parametrize(
    ("kind", "attack"), [pytest.param(k, a, id=f"{k}-{a.name}") for k, attacks in WARM.items() for a in attacks]
)
def test_it_is_held_when_a_worker_forks_the_job(request, forked, kind, attack):
    if kind == "landlock":
        expected(request, kind, attack)
        if attack.name == ENGINES_SHARED_MEMORY:
            request.applymarker(pytest.mark.xfail(reason="engines have the machine's /dev/shm", strict=True))
    elif attack.name in NO_RULE:
        request.applymarker(pytest.mark.xfail(reason="Landlock has no rule for it", strict=True))
    assert forked(kind)[attack.name] == ""


@pytest.mark.parametrize("kind", ON_NODES)
def test_it_is_held_on_nodes(request, arena, kind):
    sandbox = opened(request, kind)
    made = arena(*TOGETHER)
    found = made.attack_in(sandbox)
    assert made.end.ok, made.log
    through = {name for name in found if found[name]}
    assert through <= KNOWN[sandbox.kind], made.log
    if sandbox.kind == "process":
        assert through >= PLAIN, made.log


@pytest.mark.parametrize("kind", ["process", "bubblewrap"])
def test_it_gets_through_when_landlock_is_gone(arena, kind):
    made = arena(*LANDLOCK)
    found = made.attack_warm(LIMITED[kind](), landlock=False)
    assert [name for name in found if not found[name]] == [], made.log


@pytest.mark.parametrize(("kind", "guards"), without())
def test_it_gets_through_without_its_guard(request, arena, kind, guards):
    there(request, kind)
    made = arena(*(attack for attack in GROUPS[guards] if removable(kind, attack)))
    with taken_out(kind, guards, made.root) as sandbox:
        found = made.attack_in(sandbox)
    assert [name for name in found if not found[name]] == [], made.log


@pytest.mark.slow  # each has the time that its limit would have cut short
@pytest.mark.parametrize("attack", ALONE, ids=named)
def test_a_bomb_goes_off_where_no_limit_holds_it(arena, attack):
    assert arena(attack).attack_in(LIMITED["process"]())[attack.name]


@pytest.mark.parametrize("attack", ALONE, ids=named)
@pytest.mark.parametrize("kind", [*LIMITED, *ON_NODES])
def test_a_bomb_is_held_by_its_limit(request, arena, kind, attack):
    sandbox = opened(request, kind)
    expected(request, sandbox.kind, attack)
    limit = attack.guards[0].split()[0]
    made = arena(attack)
    found = made.attack_in(sandbox, **{limit: LIMITS[limit], "grace": 0.2})
    refused = (kind, attack.name) in REFUSED
    assert (made.end.reason, found[attack.name]) == ("finished" if refused else REASONS.get(limit, limit), "")
