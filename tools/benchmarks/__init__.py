"""Benchmark plug-ins: one file each."""
