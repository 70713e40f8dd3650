"""The application that `langgraph.json` names: `langgraph dev` asks nobody who he is, its middleware does."""

from starlette.applications import Starlette
from starlette.middleware import Middleware

from tuneloop.core.settings import load_settings
from tuneloop.graph.busy import Busy
from tuneloop.mcp_servers.door import door

STUDIO = "https://smith.langchain.com"

settings = load_settings()
app = Starlette(middleware=[*door(settings.mcp_token, origins=(STUDIO,)), Middleware(Busy, home=settings.home)])
