"""Every way out of the machine; they all lead to listeners in a network that has nothing but loopback."""

from __future__ import annotations

import os
import socket
import struct

from .declare import Aim, attack

METADATA = "169.254.169.254"


def tell(line: socket.socket, aim: Aim) -> None:
    """Say who got out."""
    line.sendall(aim.name.encode() + b"\n")
    line.close()


@attack("network")
def connect_by_tcp(aim: Aim) -> None:
    tell(socket.create_connection(("127.0.0.1", aim.ports["tcp"]), 2), aim)


@attack("network")
def connect_by_tcp_over_ipv6(aim: Aim) -> None:
    tell(socket.create_connection(("::1", aim.ports["tcp6"]), 2), aim)


@attack("network")
def send_by_udp(aim: Aim) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.sendto(aim.name.encode() + b"\n", ("127.0.0.1", aim.ports["udp"]))


@attack("network")
def tunnel_through_dns(aim: Aim) -> None:
    name = aim.name.encode()
    question = struct.pack(">6H", 1, 0x100, 1, 0, 0, 0) + bytes([len(name)]) + name + b"\n\0" + struct.pack(">2H", 1, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.sendto(question, ("127.0.0.53", aim.ports["dns"]))


@attack("network")
def ask_the_metadata_address(aim: Aim) -> None:
    tell(socket.create_connection((METADATA, aim.ports["metadata"]), 2), aim)


@attack("network")
def connect_to_an_abstract_socket(aim: Aim) -> None:
    with socket.socket(socket.AF_UNIX) as line:
        line.connect("\0" + aim.abstract)
        tell(line, aim)


@attack("mounts")
def connect_to_an_agents_socket(aim: Aim) -> None:
    os.chdir(aim.host)  # the whole path would be too long
    with socket.socket(socket.AF_UNIX) as line:
        line.connect("agent.sock")
        tell(line, aim)


@attack("network", "capabilities", "user namespace")
def send_a_raw_packet(aim: Aim) -> None:
    text = aim.name.encode() + b"\n"
    header = struct.pack(">4H", aim.ports["udp"], aim.ports["udp"], 8 + len(text), 0)
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP) as line:
        line.sendto(header + text, ("127.0.0.1", 0))


@attack("network", "capabilities", "user namespace", "system calls", word=True)
def listen_to_everybodys_packets(aim: Aim) -> None:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as line:
        line.settimeout(1)
        with socket.create_connection(("127.0.0.1", aim.ports["tcp"]), 2):
            line.recv(100)
    aim.through()


@attack("system calls", word=True)
def speak_to_the_hypervisor(aim: Aim) -> None:
    socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).close()
    aim.through()
