"""Evaluations: jobs, cache, scores; `standalone/` works without a run."""
