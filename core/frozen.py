"""The base of values that never change."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A value that never changes. Its validator is built when the first value is made: commands import many and use few."""

    model_config = ConfigDict(frozen=True, defer_build=True)
