"""Scorers of single benchmarks; standard library only, engines load them by path."""
