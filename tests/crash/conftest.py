"""One driver, one small task and one undisturbed run for all crash tests."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .world import FORM, Driver, Place, differences, end_all, journal, launches, leftovers, twice_alive, write_task


@pytest.fixture(scope="session")
def driver() -> Iterator[Driver]:
    made = Driver()
    yield made
    made.close()


@pytest.fixture(scope="session")
def new_place(
    tmp_path_factory, driver, shared_settings, llamafactory, opencompass, tiny
) -> Iterator[Callable[..., Place]]:
    """Make a home of its own; whatever still runs there at the end is ended."""
    made: list[Path] = []

    def make(name: str, disk: Path | None = None) -> Place:
        home = (disk or tmp_path_factory.mktemp(name)) / "home"
        home.mkdir(exist_ok=True)
        for shared in (shared_settings.home.engines, shared_settings.home.models):
            (home / shared.name).symlink_to(shared)
        made.append(home)
        return Place(driver, home, write_task(home.parent / "task"), FORM.loops, aside=disk and disk.parent)

    yield make
    for home in made:
        end_all(home)
        shutil.rmtree(home, ignore_errors=True)


@dataclass(frozen=True)
class Reference:
    """An undisturbed run and what it found."""

    place: Place
    journal: dict[str, Any]


@pytest.fixture(scope="session")
def reference(new_place) -> Reference:
    """Nothing happens."""
    place = new_place("undisturbed")
    place.finish()
    assert leftovers(place.home) == []
    assert all(len(ends) == 1 for ends in launches(place.run).values()), launches(place.run)
    return Reference(place, journal(place))


@pytest.fixture
def same_end(reference) -> Callable[[Place], None]:
    """The run ended as the undisturbed one did and left nothing behind."""

    def check(place: Place) -> None:
        assert place.finished, place.said()
        assert differences(reference.journal, journal(place)) == [], launches(place.run)
        assert leftovers(place.home) == []
        assert list(twice_alive(place.run)) == []

    return check
