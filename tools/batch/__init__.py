"""Several runs as one batch: one per task and scenario, with the machine's GPUs given out among them."""
