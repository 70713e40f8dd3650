"""The one ledger of a run: what was spent by whom, what may be spent, what is left."""
