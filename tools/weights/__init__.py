"""Files of models: formats, fingerprints, conversion, delivery."""
