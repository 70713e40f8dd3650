"""One arena a sandbox, attacked once; the verdict stays per attack."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import partial

import pytest

from ..conftest import Cluster, one_cluster
from .arena import Arena
from .declare import Attack
from .lonely import Lonely

Open = Callable[..., Arena]


@pytest.fixture(scope="session")
def lonely() -> Iterator[Lonely]:
    """Where everything of this suite happens."""
    with closing(Lonely()) as made:
        yield made


@pytest.fixture(scope="module")
def find_nodes(lonely: Lonely) -> Iterator[Callable[[str], Cluster]]:
    """A cluster whose nodes live there too."""
    with one_cluster(partial(within, lonely)) as found:
        yield found


@contextmanager
def within(lonely: Lonely, made: AbstractContextManager[Cluster]) -> Iterator[Cluster]:
    """It begins and ends there."""
    try:
        yield lonely.do(made.__enter__)
    finally:
        lonely.do(made.__exit__, None, None, None)


@pytest.fixture
def arena(lonely: Lonely, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    """Makes arenas for one test."""
    yield from opener(lonely, tmp_path_factory)


@pytest.fixture(scope="module")
def shared_arena(lonely: Lonely, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    """Makes arenas that many verdicts are read from."""
    yield from opener(lonely, tmp_path_factory)


def opener(lonely: Lonely, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    """What it opened is closed in the end."""
    with ExitStack() as stack:

        def opened(*attacks: Attack) -> Arena:
            return stack.enter_context(closing(Arena(tmp_path_factory.mktemp("arena"), attacks, lonely)))

        yield opened
