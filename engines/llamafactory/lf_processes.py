"""One training as several processes, one for each GPU of one or several machines: started, watched and ended together.

torchrun would do it, but a job needs more: a stop lets every process save and ends with status 75, a killed process ends the
training as killed, and the log ends with the words of the process that failed first. The rows of an optimizer step stay
those of the config on any number of processes.

On several nodes (NNODES, NODE_RANK, MASTER_ADDR, RDZV_ID: `sandboxes/node_group.py`) each has this program. The first says in a
file of the working directory, which the nodes share, how the training is laid out; by its store they tell each other that they
live, and how a process of theirs ended.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from torch.distributed import TCPStore

FORCED, ASKED = "FORCE_TORCHRUN", "NPROC_PER_NODE"  # LLaMA-Factory's own: several processes also without GPUs; how many
UNFINISHED = 75  # EX_TEMPFAIL: it ended on request; the next attempt goes on here
PROCESSES = "processes.json"  # in a checkpoint: how many made it, and whether its state is split over them
HOST = "127.0.0.1"
LEFT = 10.0  # seconds that the others have once one has ended badly
BEAT, SILENT = 2.0, 30.0  # seconds between two words of a node, and after which one that said nothing is dead
TICK = 0.1
WORDS = 4000  # characters of a failed process's log that are said again
KILLED = (-signal.SIGKILL, -signal.SIGTERM)
End = tuple[int, int]  # of a process that ended badly: its rank and its exit status


def process_count(gpus: int, args: Mapping[str, Any]) -> tuple[int, int]:
    """How many nodes train, and processes on each: as many as are asked for, else one a GPU.

    Fewer where the rows of a step cannot be shared evenly.

    Exits where more are asked for than there are GPUs.
    """
    asked = int(os.environ.get(ASKED) or max(1, gpus))
    if 0 < gpus < asked:
        sys.exit(f"error: {asked} processes of one training need {asked} GPUs, and this job has {gpus}")
    there = int(os.environ.get("NNODES", "1"))
    nodes, count = shares_evenly(rows_of_step(args), there, asked)
    if nodes * count < there * asked:
        rows = rows_of_step(args)
        print(
            f"{nodes * count} processes instead of {there * asked}: the {rows} rows of a step divide by it", flush=True
        )
    return nodes, count


def rows_of_step(args: Mapping[str, Any]) -> int:
    """Rows of one optimizer step, as on one device."""
    return int(args.get("per_device_train_batch_size") or 8) * int(args.get("gradient_accumulation_steps") or 1)


def shares_evenly(rows: int, nodes: int, most: int) -> tuple[int, int]:
    """Nodes, and processes on each up to `most`: as many in all as so many rows divide by."""
    found = ((n, count) for n in range(nodes, 0, -1) for count in range(most, 0, -1) if rows % (n * count) == 0)
    return max(found, key=math.prod)


def own_share(args: dict[str, Any], count: int) -> dict[str, Any]:
    """The arguments of one of `count` processes: fewer batches of a step each, and where these are too few smaller ones."""
    batches = int(args.get("gradient_accumulation_steps") or 1)
    batch = int(args.get("per_device_train_batch_size") or 8)
    share = math.gcd(batches, count)
    return {
        **args,
        "gradient_accumulation_steps": batches // share,
        "per_device_train_batch_size": batch * share // count,
    }


def check_resumable(checkpoint: str, count: int) -> None:
    """Exits where the checkpoint's optimizer is split over another number of processes."""
    file = Path(checkpoint, PROCESSES)
    if checkpoint and file.is_file():
        made = json.loads(file.read_text())
        if made["split"] and made["count"] != count:
            sys.exit(
                f"error: {file.parent.name} is split over {made['count']} processes and cannot go on with {count}: "
                f"right is {made['count']} GPUs, or an empty output folder"
            )


def run_together(
    argv: Sequence[str],
    count: int,
    at_end: Callable[[], object] = lambda: None,
    nodes: int = 1,
    env: Mapping[str, str] = MappingProxyType({}),
) -> NoReturn:
    """Run `argv` in this Python as `count` processes, call `at_end`, and end as the first that ended badly.

    With `nodes` the same on each, where `env` is added to the environment.
    """
    store = TCPStore(HOST, 0, is_master=True, wait_for_workers=False)
    if "NNODES" in os.environ:
        plan = {"port": store.port, "count": count, "nodes": nodes, "env": dict(env)}
        part = plan_file().with_suffix(".part")
        part.write_text(json.dumps(plan))
        part.replace(plan_file())
    run_here(Together(argv, count, store, nodes), at_end)


def follow_first(argv: Sequence[str], gpus: int) -> NoReturn:
    """The same on another node than the first, as the first one says; at once over where it is not needed."""
    while not plan_file().is_file():  # whoever started this ends it where the first node does not come so far
        time.sleep(TICK)
    plan = json.loads(plan_file().read_text())
    if own_node() >= plan["nodes"]:
        sys.exit(0)
    if 0 < gpus < plan["count"]:
        sys.exit(f"error: {plan['count']} processes on each node need {plan['count']} GPUs, and this one has {gpus}")
    os.environ.update(plan["env"])
    store = TCPStore(os.environ["MASTER_ADDR"], plan["port"], is_master=False, wait_for_workers=False)
    run_here(Together(argv, plan["count"], store, plan["nodes"]), lambda: None)


def plan_file() -> Path:
    """How the first node says that this attempt is laid out, in the working directory."""
    return Path(f"nodes-{os.environ['RDZV_ID']}.json")


def own_node() -> int:
    """This node's number, from 0."""
    return int(os.environ.get("NODE_RANK", "0"))


def run_here(together: Together, at_end: Callable[[], object]) -> NoReturn:
    """This node's part of it."""
    signal.signal(signal.SIGTERM, together.stop)
    try:
        together.start()
        end = together.wait()
    finally:
        at_end()
    if end is None:
        sys.exit(0)
    rank, code = end
    if rank and rank_log(rank).is_file():
        print(rank_log(rank).read_text(errors="replace")[-WORDS:], flush=True)
    if code != UNFINISHED:
        print(f"process {rank} of {together.world} ended first, with status {code}", flush=True)
    if code in KILLED:  # as if it had been this one
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code if code > 0 else 128 - code)


def rank_log(rank: int) -> Path:
    """What a process other than the first has said."""
    return Path(f"rank-{rank}.log")


class Together:
    """This node's processes; the log of the very first is the job's, the others write `rank-N.log` in the working directory."""

    def __init__(self, argv: Sequence[str], count: int, store: TCPStore, nodes: int = 1) -> None:
        self.argv, self.count, self.world, self.first = argv, count, count * nodes, own_node() * count
        self.peers = Peers(store, nodes, count)
        self.asked = False
        self.processes: list[subprocess.Popen[bytes]] = []
        names = ("TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RESTART_COUNT")
        self.env = {**os.environ, **dict.fromkeys(names, "0"), names[0]: "True", "MASTER_PORT": str(store.port)}
        # They find one another through the first node's store; on one node over the loopback interface and nothing else.
        if nodes == 1:
            self.env |= {"MASTER_ADDR": HOST, "GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
        self.env |= {"WORLD_SIZE": str(self.world), "LOCAL_WORLD_SIZE": str(count)}

    def start(self) -> None:
        """All of them."""
        for local in range(self.count):
            rank = self.first + local
            env = {**self.env, "RANK": str(rank), "LOCAL_RANK": str(local)}
            with rank_log(rank).open("wb") if rank else open(os.devnull, "wb") as file:  # noqa: PTH123
                out = file if rank else None
                argv = [sys.executable, *self.argv]
                self.processes.append(subprocess.Popen(argv, env=env, stdout=out, stderr=out))
        if self.asked:  # meanwhile
            self.stop()

    def stop(self, *_: object) -> None:
        """Ask every process to save and end: the handler of SIGTERM."""
        self.asked = True
        for process in self.processes:
            process.send_signal(signal.SIGTERM)

    def wait(self) -> End | None:
        """Until all have ended: the end that decides, None where all was well. The others do not outlive it for long."""
        ends: list[End] = []  # in the order in which they were heard of; of this node the first
        own, since, over = None, 0.0, False
        while True:
            alive = [process for process in self.processes if process.poll() is None]
            if own is None and not over and (own := self.failed()):  # later ends are of this process's making
                ends.append(own)
            ends += self.peers.exchange(own)
            since = since or (time.monotonic() if ends else 0.0)
            stopped = self.processes[0].returncode == UNFINISHED  # and the others wait for their end
            over = stopped or (since > 0 and time.monotonic() - since > LEFT)
            if not alive and (over or not ends or not self.peers.others):
                return next((end for end in ends if end[1] in (*KILLED, UNFINISHED)), ends[0]) if ends else None
            for process in alive if over else ():
                process.kill()
            time.sleep(TICK)

    def failed(self) -> End | None:
        """One that ended badly so far; one that was asked to before others that cannot go on without it."""
        ended = [
            (process.returncode != UNFINISHED, self.first + local, process.returncode)
            for local, process in enumerate(self.processes)
            if process.returncode
        ]
        return min(ended)[1:] if ended else None


class Peers:
    """What nodes say to one another by the first one's store: that they live, and how a process of theirs ended."""

    def __init__(self, store: TCPStore, nodes: int, count: int) -> None:
        self.store, self.count = store, count
        self.others = {node for node in range(nodes) if node != own_node()}
        self.ended: set[int] = set()
        self.heard: dict[int, tuple[bytes, float]] = {}
        self.next = 0.0
        self.told: End | None = None

    def exchange(self, own: End | None) -> list[End]:
        """Say that this node lives, or its end; what was heard of other nodes' ends since."""
        if not self.others or (time.monotonic() < self.next and own == self.told):
            return []
        self.next, self.told = time.monotonic() + BEAT, own
        try:
            self.store.set(f"node-{own_node()}", json.dumps([time.monotonic(), own]))
            found = {node: end for node in self.others - self.ended if (end := self.end_of(node))}
        except RuntimeError:  # the first node's store is gone
            found = {0: (0, -signal.SIGKILL)} if 0 not in self.ended else {}
        self.ended |= found.keys()
        return list(found.values())

    def end_of(self, node: int) -> End | None:
        """How a process of another node ended; one that has said nothing for too long is dead."""
        if not self.store.check([f"node-{node}"]):
            return None  # it is on its way
        said = self.store.get(f"node-{node}")
        before, since = self.heard.get(node, (b"", 0.0))
        if said == before:
            return (node * self.count, -signal.SIGKILL) if time.monotonic() - since > SILENT else None
        self.heard[node] = said, time.monotonic()
        end = json.loads(said)[1]
        return tuple(end) if end else None
