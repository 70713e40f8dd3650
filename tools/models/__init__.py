"""Base-model plug-ins: one file each."""
