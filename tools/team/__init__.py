"""The team's index of runs: one table on a Postgres server."""
