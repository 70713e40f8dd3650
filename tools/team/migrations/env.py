"""Run by Alembic: the migrations, on the connection that `index.py` hands over."""

from __future__ import annotations

from alembic import context

from tuneloop.tools.team.index import VERSIONS

context.configure(connection=context.config.attributes["connection"], version_table=VERSIONS)
context.run_migrations()
