"""The table of runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make it."""
    words = ("run", "user_name", "host", "home", "benchmark", "base_model", "state", "claim")
    op.create_table(
        "tuneloop_runs",
        sa.Column("key", sa.Text, primary_key=True),
        *(sa.Column(name, sa.Text, nullable=False) for name in words),
        sa.Column("experiments", sa.Integer, nullable=False),
        *(sa.Column(name, sa.Float) for name in ("baseline", "best")),
        *(sa.Column(name, sa.DateTime(timezone=True), nullable=False) for name in ("started", "changed")),
    )
