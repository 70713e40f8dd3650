"""Where LangGraph's checkpoints are stored: SQLite in the run's folder, or PostgreSQL."""
