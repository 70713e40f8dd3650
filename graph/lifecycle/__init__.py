"""Runs from outside of the graph: created, driven, locked, checked, rebuilt."""
