"""Jobs of a run: launched, polled, limited."""
