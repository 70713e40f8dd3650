"""The whole corpus: importing a family enters its attacks."""

from __future__ import annotations

from . import files, kernel, network, processes, python_start, resources
from .declare import CORPUS, Attack, aims

FAMILIES = tuple(m.__name__.rpartition(".")[2] for m in (files, kernel, network, processes, python_start))
TOGETHER = [attack for attack in CORPUS.values() if attack.family in FAMILIES]
ALONE = [attack for attack in CORPUS.values() if attack.code.__module__ == resources.__name__]


def guarded() -> dict[tuple[str, ...], list[Attack]]:
    """Attacks that one job can try together, by what holds them."""
    found: dict[tuple[str, ...], list[Attack]] = {}
    for attack in TOGETHER:
        found.setdefault(attack.guards, []).append(attack)
    return found


__all__ = ["ALONE", "CORPUS", "FAMILIES", "TOGETHER", "aims", "guarded"]
