"""LLaMA-Factory parameters and train.yaml: catalog, check, search, memory."""
