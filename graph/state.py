"""The graph's state: decisions only, a few KB at any length of the journal; artifacts lie on disk."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from tuneloop.core.run import RunSpec

VERSION = 1


class Trouble(BaseModel):
    """The last failure of the open experiment and whose work it is to mend it."""

    model_config = ConfigDict(frozen=True)

    node: str
    culprit: str
    text: str


class State(BaseModel):
    """Every field has a default: a checkpoint of an older version still loads."""

    version: int = VERSION
    spec: RunSpec | None = Field(None, description="what was asked; only read when the run has no folder yet")
    run_id: str = ""
    stage: str = Field("prepare", description="where the run stands: the node to go to after steer")
    experiment: int = 0
    attempt: int = Field(0, description="repairs spent on the open experiment")
    trouble: Trouble | None = None
    spent: float = Field(0.0, description="seconds of work so far, over all sittings")
    report: str = ""
