"""A run from Python: `python examples/invoke.py` fine-tunes the embedded model once and prints where the report is."""

from tuneloop.graph.server.app import graph

spec = {"benchmark": "wordproblems", "base_model": "tiny", "loop_n": 1}
state = graph.invoke({"spec": spec}, {"recursion_limit": 1000})
print(state["report"])
