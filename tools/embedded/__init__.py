"""The embedded benchmark, its messy data, and the tiny base model with the corpus that it was trained on."""
