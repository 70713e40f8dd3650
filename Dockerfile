# The orchestrator in a container (docs/platforms.md). Jobs run in the landlock sandbox there; engines are built at first use.
ARG BASE=python:3.13-slim-trixie
FROM ${BASE}
RUN apt-get update -q && apt-get install -y -q --no-install-recommends make && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/tuneloop
COPY . .
RUN make install && rm -rf /root/.cache
ENV FT_FILE_PATH=/var/lib/tuneloop
VOLUME ["/var/lib/tuneloop", "/var/cache/tuneloop"]
ENTRYPOINT ["/opt/tuneloop/.venv/bin/tuneloop"]
