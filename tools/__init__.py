"""What can be done: plain typed Python; no language model, no MCP, no LangGraph."""
