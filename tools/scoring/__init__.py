"""Scores of replies: answer matching, code results, LLM judge."""
