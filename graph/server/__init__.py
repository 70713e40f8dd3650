"""The graph under `langgraph dev`."""
