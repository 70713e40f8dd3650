"""Validation of the records that a data script wrote."""
