"""Arguments that tools of several servers take; their bounds are part of the schema that callers see."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

MOST = 999_999
Experiment = Annotated[int, Field(ge=1, le=MOST, description="experiment number")]
Measured = Annotated[int, Field(ge=0, le=MOST, description="experiment number; 0 is the untouched model")]
Count = Annotated[int, Field(ge=1, le=50, description="how many")]
Offset = Annotated[int, Field(ge=0, le=10**9, description="how many to skip")]
Split = Annotated[str, Field(max_length=100, description="validation; others are closed")]
Kind = Annotated[
    Literal["any", "empty", "cut_off", "unparsed", "scorer_failed", "judge_unknown", "partly_right", "wrong"],
    Field(description="which failures are shown as items; the counts are always of all"),
]
Name = Annotated[
    str, Field(max_length=200, description="one of its benchmarks; empty: the first, in a run the one that decides")
]
Group = Annotated[str, Field(max_length=200, description="only items of this part of the benchmark; empty: all")]
