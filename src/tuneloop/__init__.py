"""An autonomous fine-tuning team: name a benchmark, a base model and a budget, get a better model and its sealed test score."""

TYPE_CHECKING = False  # jobs' supervisors import this package too: typing and importlib would be half of their start

__version__ = "0.1.0"
__all__ = [
    "Answer",
    "RunResult",
    "RunSpec",
    "Settings",
    "InvalidRequestError",
    "InfrastructureError",
    "arun",
    "astream",
    "build_graph",
    "load_settings",
    "run",
    "run_batch",
    "send",
    "stream",
]

if TYPE_CHECKING:
    from tuneloop.core.errors import InvalidRequestError, InfrastructureError
    from tuneloop.core.run_spec import RunSpec
    from tuneloop.core.settings import Settings, load_settings
    from tuneloop.graph.build import build_graph
    from tuneloop.graph.lifecycle.batch import run_batch
    from tuneloop.graph.lifecycle.api import Answer, RunResult, arun, astream, run, send, stream

PLACES = {
    "InvalidRequestError": "core.errors",
    "InfrastructureError": "core.errors",
    "RunSpec": "core.run_spec",
    "Settings": "core.settings",
    "load_settings": "core.settings",
    "build_graph": "graph.build",
    "run_batch": "graph.lifecycle.batch",
    **dict.fromkeys(("Answer", "RunResult", "arun", "astream", "run", "send", "stream"), "graph.lifecycle.api"),
}


def __getattr__(name: str) -> object:
    """A public name, imported when it is first asked for: `import tuneloop` alone costs nothing."""
    if name not in PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    found: object = getattr(importlib.import_module(f"{__name__}.{PLACES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
