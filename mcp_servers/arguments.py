"""Arguments that tools of several servers take; their bounds are part of the schema that callers see."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

MOST = 999_999
Experiment = Annotated[int, Field(ge=1, le=MOST, description="experiment number")]
Measured = Annotated[int, Field(ge=0, le=MOST, description="experiment number; 0 is the untouched model")]
Count = Annotated[int, Field(ge=1, le=50, description="how many")]
Offset = Annotated[int, Field(ge=0, le=10**9, description="how many to skip")]
Split = Annotated[str, Field(max_length=100, description="validation; others are closed")]
