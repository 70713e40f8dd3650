"""Stands in for pycosat, which is published as C source only: reasoning_gym imports it, and `zebra_puzzles` alone calls it."""


def itersolve(*_args: object, **_options: object) -> object:
    """Raises NotImplementedError."""
    raise NotImplementedError("needs pycosat, which is built from C source and is not in this engine")


solve = itersolve
