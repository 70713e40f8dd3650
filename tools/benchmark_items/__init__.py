"""Items of benchmarks: fetched, checked, split, stored."""
