"""Engines: isolated environments that jobs run in, built once from lock files or brought along by the user."""

from tuneloop.tools.engines.engine import Engine, verify_engine
from tuneloop.tools.engines.find import ensure_engine, list_engines, remove_engine

__all__ = ["Engine", "ensure_engine", "list_engines", "remove_engine", "verify_engine"]
