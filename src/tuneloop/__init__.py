"""An autonomous fine-tuning team: name a benchmark, a base model and a budget, get a model that is proved better."""

__version__ = "0.1.0"
