"""What can be said about LLaMA-Factory's parameters: the catalog, a checked config, the config the engine gets."""
