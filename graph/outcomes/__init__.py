"""Decisions about experiments: promotion, repair, stopping, the report's data."""
