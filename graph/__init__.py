"""How a run flows: the only folder that imports langgraph."""
