"""The embedded world: a benchmark, messy data and a corpus for a tiny base model, made on first use and always the same."""
