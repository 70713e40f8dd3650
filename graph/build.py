"""The picture of the project: twelve nodes and the ways between them."""

from __future__ import annotations

from langchain_core.runnables import RunnableLambda
from langgraph.graph import END, START, StateGraph

from tuneloop.core.async_bridge import in_thread
from tuneloop.graph.approval.gate import asks
from tuneloop.graph.nodes.build_data import build_data
from tuneloop.graph.nodes.critique import critique
from tuneloop.graph.nodes.engineer_data import engineer_data
from tuneloop.graph.nodes.evaluate import evaluate
from tuneloop.graph.nodes.finish import finish
from tuneloop.graph.nodes.prepare import prepare
from tuneloop.graph.nodes.research import research
from tuneloop.graph.nodes.smoke_run import smoke_run
from tuneloop.graph.nodes.steer import steer
from tuneloop.graph.nodes.train import train
from tuneloop.graph.nodes.validate import validate
from tuneloop.graph.nodes.write_config import write_config
from tuneloop.graph.outcomes.repair import repair
from tuneloop.graph.state import State
from tuneloop.graph.step import step

REPAIR_TARGETS = ["engineer_data", "write_config", "critique"]
NODES = {
    "prepare": (step("prepare", prepare), ["research", "finish"]),
    "research": (step("research", research), ["engineer_data", "critique"]),
    "engineer_data": (step("engineer_data", engineer_data), ["write_config", "critique"]),
    "write_config": (step("write_config", write_config), ["validate", "critique"]),
    "validate": (step("validate", validate, repair), ["build_data", *REPAIR_TARGETS]),
    "build_data": (step("build_data", asks("plan", build_data), repair), ["smoke_run", *REPAIR_TARGETS]),
    "smoke_run": (step("smoke_run", smoke_run, repair), ["train", *REPAIR_TARGETS]),
    "train": (step("train", asks("launch", train)), ["evaluate", "engineer_data", "critique"]),
    "evaluate": (step("evaluate", evaluate), ["critique"]),
    "critique": (step("critique", critique), ["research", "finish"]),
    "finish": (step("finish", finish), [END]),
}


def next_stage(state: State) -> str:
    """Where the run stands."""
    return state.stage


def build_graph() -> StateGraph[State]:
    """The graph, not compiled: who runs it chooses the checkpointer."""
    graph = StateGraph(State)
    graph.add_node("steer", RunnableLambda(steer, afunc=in_thread(steer)))
    graph.add_edge(START, "steer")
    graph.add_conditional_edges("steer", next_stage, [*NODES, END])
    for name, (node, ways) in NODES.items():
        graph.add_node(name, node)
        graph.add_conditional_edges(name, next_stage, ways)
    return graph
