"""Data scripts: static check, runs, the dataset that they build."""
