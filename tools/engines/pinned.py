"""The very engine that a run was prepared with, also after an upgrade that brought a newer one."""

from __future__ import annotations

from tuneloop.core.errors import SetupError
from tuneloop.core.settings import Settings
from tuneloop.tools.engines.engine import MANIFEST, Engine, read_manifest
from tuneloop.tools.engines.find import ensure_engine

VARIABLES = {"llamafactory": "LLAMA_FACTORY_PATH", "opencompass": "OPENCOMPASS_PATH"}


def pinned(name: str, settings: Settings, wanted: str) -> Engine:
    """The engine of identity `wanted`, wherever it lies in this home; a user's own one is verified.

    Raises SetupError in one line when it is gone; nothing is built in its place, other numbers would come from it.
    """
    given = {"llamafactory": settings.llama_factory_path, "opencompass": settings.opencompass_path}[name]
    if given is not None:
        engine = ensure_engine(name, settings)
        if engine.identity == wanted:
            return engine
        raise SetupError(
            f"{VARIABLES[name]}={given}: engine {engine.identity}, and the run began with {wanted}; bring it back"
        )
    for file in sorted(settings.home.engines.glob(f"{name}-*/{MANIFEST}")):
        found = read_manifest(file)
        if found is not None and found.identity == wanted:
            return found
    raise SetupError(
        f"engine {name} ({wanted}), which the run began with, is gone: `tuneloop engines build {name}` makes it again, "
        "unless a newer tuneloop makes another one"
    )
