"""The only way out for a job that may call a model: an OpenAI-compatible proxy on a socket, which holds the key outside.

`access.py` says who may ask what, `doors.py` opens a job's door and keeps the proxy alive, `serve.py` is the process.
"""
