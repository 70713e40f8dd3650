"""The compiled graph for `langgraph dev` and for `graph.invoke` without a checkpointer of one's own."""

from tuneloop.core.settings import load_settings
from tuneloop.graph.build import build_graph

graph = build_graph(load_settings()).compile(name="tuneloop")
