"""The compiled graph for `langgraph dev` and for `graph.invoke` without a checkpointer of one's own."""

from tuneloop.graph.build import build_graph

graph = build_graph().compile(name="tuneloop")
