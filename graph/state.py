"""The graph's state: decisions only, a few KB at any length of the journal; artifacts lie on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

from langchain_core.messages import AnyMessage
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tuneloop.core.run_spec import RunSpec

if TYPE_CHECKING:
    from langgraph.graph.message import Messages

# Raised with every change of the fields below, or of what lies in a run and must be read; another version is refused.
VERSION = 5


MESSAGES, LETTERS = 12, 3000  # kept in the state; everything that was said lies in `conversation.jsonl`


def keep_recent(before: list[AnyMessage], new: Messages) -> list[AnyMessage]:
    """Add or replace messages by id; the oldest are dropped to keep the state small, never the newest."""
    from langgraph.graph.message import add_messages  # takes 0.4 s: `tuneloop chat` answers without it

    together = cast("list[AnyMessage]", add_messages(cast("Messages", before), new))
    kept, letters = list[AnyMessage](), 0
    for message in reversed(together[-MESSAGES:]):
        letters += len(message.text)
        if kept and letters > LETTERS:
            break
        kept.insert(0, message)
    return kept


class NodeFailure(BaseModel):
    """The last failure of the open experiment and the culprit that must repair it; also a file per attempt."""

    model_config = ConfigDict(frozen=True)

    node: str
    culprit: str
    text: str
    leads: str = Field("critique", description="the node that goes on: the culprit's author, or the critic")


class State(BaseModel):
    """Every field has a default, so that a run is entered with what is known of it."""

    version: int = VERSION
    spec: RunSpec | None = Field(None, description="what was asked; only read when the run has no folder yet")
    run_id: str = ""
    stage: str = Field("prepare", description="where the run stands: the node to go to after steer")
    experiment: int = 0
    attempt: int = Field(0, description="repairs spent on the open experiment")
    failure: NodeFailure | None = None
    spent: float = Field(0.0, description="seconds of work so far, over all sessions")
    report: str = ""
    messages: Annotated[list[AnyMessage], keep_recent] = Field([], description="the end of a chat through the graph")


def stored_state(values: dict[str, Any]) -> State | None:
    """The state of these values; None where they are none: then the run's files say where it stands."""
    try:
        return State.model_validate({name: values[name] for name in State.model_fields if name in values})
    except ValidationError:
        return None
