"""The application that `langgraph.json` names: `langgraph dev` asks nobody who he is, its middleware does."""

from starlette.applications import Starlette

from tuneloop.core.settings import load_settings
from tuneloop.mcp_servers.door import door

STUDIO = "https://smith.langchain.com"

app = Starlette(middleware=door(load_settings().mcp_token, origins=(STUDIO,)))
