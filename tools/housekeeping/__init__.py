"""Disk space: pruning, cleanup, removal."""
