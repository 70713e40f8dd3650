"""Evaluations without a run: any model on any benchmark."""
