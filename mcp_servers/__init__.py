"""How tools are offered: five MCP servers and the client that agents and nodes use; the only folder that imports MCP."""
