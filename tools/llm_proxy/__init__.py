"""The LLM proxy: sandboxed jobs ask models through it, over a Unix socket; only the proxy holds the provider's key.

`access.py` says which job may ask what, `launcher.py` opens a job's endpoint and keeps the proxy running, `server.py` is
the process.
"""
