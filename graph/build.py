"""The picture of the project: twelve nodes and the ways between them."""

from __future__ import annotations

from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.graph import END, START, StateGraph

from tuneloop.core.async_bridge import in_thread
from tuneloop.core.settings import Settings
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
from tuneloop.graph.outcomes.repair import give_up, repair
from tuneloop.graph.state import State
from tuneloop.graph.step import Failed, Node, Update, step

REPAIR_TARGETS = ["engineer_data", "write_config", "critique"]
# Node, where a recipe's failure leads, and the ways out.
NODES: dict[str, tuple[Node, Failed, list[str]]] = {
    "prepare": (prepare, give_up, ["research", "finish"]),
    "research": (research, give_up, ["engineer_data", "critique", "finish"]),
    "engineer_data": (engineer_data, give_up, ["write_config", "critique"]),
    "write_config": (write_config, give_up, ["validate", "critique"]),
    "validate": (validate, repair, ["build_data", *REPAIR_TARGETS]),
    "build_data": (asks("plan", build_data), repair, ["smoke_run", *REPAIR_TARGETS]),
    "smoke_run": (smoke_run, repair, ["train", *REPAIR_TARGETS]),
    "train": (asks("launch", train), give_up, ["evaluate", "engineer_data", "critique"]),
    "evaluate": (evaluate, give_up, ["critique"]),
    "critique": (critique, give_up, ["research", "finish"]),
    "finish": (finish, give_up, [END]),
}


# What an experiment goes through.
EXPERIMENT = [name for name in NODES if name not in ("prepare", "finish")]


def next_stage(state: State) -> str:
    """Where the run stands."""
    return state.stage


def build_graph(settings: Settings) -> StateGraph[State]:
    """The uncompiled graph of one machine's runs: the caller chooses the checkpointer."""
    graph = StateGraph(State)
    graph.add_node("steer", entry(settings))
    graph.add_edge(START, "steer")
    graph.add_conditional_edges("steer", next_stage, [*NODES, END])
    for name, (node, failed, ways) in NODES.items():
        graph.add_node(name, step(name, node, settings, failed))
        graph.add_conditional_edges(name, next_stage, ways)
    return graph


def build_experiment_graph(settings: Settings) -> StateGraph[State]:
    """The graph of one experiment beside others: from where it stands to its end."""
    graph = StateGraph(State)
    graph.add_conditional_edges(START, next_stage, EXPERIMENT)
    for name in EXPERIMENT:
        node, failed, _ = NODES[name]
        graph.add_node(name, step(name, node, settings, failed))
        graph.add_conditional_edges(name, experiment_stage, [*EXPERIMENT, END])
    return graph


def experiment_stage(state: State) -> str:
    """Where the experiment goes on; what comes after it is not its business."""
    return state.stage if state.stage in EXPERIMENT and state.stage != "research" else END


def entry(settings: Settings) -> RunnableLambda[State, Update]:
    """`steer`, with a synchronous and an asynchronous face."""

    def face(state: State, config: RunnableConfig) -> Update:
        return steer(state, config, settings)

    return RunnableLambda(face, afunc=in_thread(face), name="steer")
