"""Overlap of training rows with benchmark items."""
