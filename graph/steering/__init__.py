"""Messages to a run: read from its inbox, parsed, checked, carried out, answered."""
