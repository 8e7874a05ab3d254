"""Network of the cluster: capabilities of the machine, free addresses, and setup commands.

::

    host ── storm-N ══ host ┐
                            ├─ bridge "switch" (Nimbus, ZooKeeper)        one network namespace
    node1: eth0 ══════ node1┤
    node2: eth0 ══════ node2┘   ══ a veth pair, rate-limited at both ends for nodes

Each node is a network namespace of its own. Nothing has a name outside: when the last process of the cluster ends,
the kernel takes down the namespaces, and with them the bridge and every veth, the host's end too.
"""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Sequence

from stormwright.errors import ClusterError
from stormwright.model.link_speed import link_bits_per_s

#: Into a network and a process namespace that end with this command.
UNSHARE = ("unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")

_TRIAL = """
ip link add storm0 type bridge
ip link add storm1 type veth peer name storm2
tc qdisc add dev storm1 root tbf rate 1mbit burst 32kb latency 50ms
"""

# RFC 2544's range for tests inside a laboratory: no network that a machine is attached to should use it.
_SUBNETS = [f"198.18.{third}" for third in range(256)]

# Ports under Linux' usual range for outgoing connections, so that none of those takes one of ours later.
_LAST_PORT = 32767


def why_no_namespaces() -> str:
    """Return why this process cannot create network namespaces with limited links; empty if it can."""
    if os.geteuid() != 0:
        return "only root can make network namespaces"
    missing = [tool for tool in ("ip", "tc", "unshare", "nsenter") if shutil.which(tool) is None]
    if missing:
        return f"{' and '.join(missing)} not found (Debian packages iproute2 and util-linux)"
    trial = subprocess.run([*UNSHARE, "sh", "-ec", _TRIAL], capture_output=True, text=True, check=False)
    if trial.returncode != 0:
        return f"this machine does not allow it ({trial.stderr.strip().splitlines()[-1]})"
    return ""


def free_subnet() -> str:
    """Return the first three octets of a /24 that overlaps no address and no route of the host.

    Raises
    ------
    ClusterError
        If all are taken.
    """
    routes = json.loads(run("ip", "-json", "-4", "route", "show", "table", "all"))
    taken = [ipaddress.ip_network(route["dst"], strict=False) for route in routes if route["dst"] != "default"]
    for subnet in _SUBNETS:
        network = ipaddress.ip_network(f"{subnet}.0/24")
        if not any(network.overlaps(other) for other in taken):
            return subnet
    raise ClusterError("no free subnet for the cluster: the host has routes to all of 198.18.0.0/16")


def free_ports(count: int, first: int) -> list[int]:
    """Return `count` unused TCP ports from `first` on.

    Raises
    ------
    ClusterError
        If there are not that many.
    """
    found: list[int] = []
    for port in range(first, _LAST_PORT):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise ClusterError(f"only {len(found)} of {count} TCP ports from {first} on are free")


#: Shell line for a new namespace. A connection whose process was killed lives on in the kernel, and keeps its namespace
#: alive, until its peer has confirmed the end or retries are used up: two minutes by default when the peer is gone too.
FORGET_THE_DEAD = "echo 1 > /proc/sys/net/ipv4/tcp_orphan_retries"


def lay_master(address: str) -> None:
    """Create the bridge with Nimbus' address, inside the cluster's namespace."""
    run("sh", "-c", FORGET_THE_DEAD)
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "name", "switch", "type", "bridge")
    run("ip", "addr", "add", f"{address}/24", "dev", "switch")
    run("ip", "link", "set", "switch", "up")


def lay_node(name: str, address: str, pid: int, link: str | None) -> None:
    """Create the link to a node, inside the cluster's namespace.

    Parameters
    ----------
    name
        Name of the node, and of the end of its link at the switch.
    address
        Address of the node, in a subnet of 24 bits.
    pid
        Process that holds the node's namespace.
    link
        Rate limit of both ways in the words of ``tc``, such as ``40mbit``; None for no limit.

    Raises
    ------
    ClusterError
        A command failed.
    """
    run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
    inside = in_namespace(pid)
    run(*inside, "ip", "link", "set", "lo", "up")
    run(*inside, "ip", "addr", "add", f"{address}/24", "dev", "eth0")
    if link is not None:
        run("tc", "qdisc", "add", "dev", name, "root", *limit_arguments(link))
        run(*inside, "tc", "qdisc", "add", "dev", "eth0", "root", *limit_arguments(link))
    run(*inside, "ip", "link", "set", "eth0", "up")
    run("ip", "link", "set", name, "master", "switch", "up")


def limit_node(name: str, cluster: int, holder: int, link: str) -> None:
    """Change the rate limit of a node's link from outside; packets in transit arrive.

    Parameters
    ----------
    name
        Name of the node.
    cluster, holder
        Processes in the cluster's namespace, and in the node's.
    link
        Rate limit of both ways in the words of ``tc``.

    Raises
    ------
    ClusterError
        It has no limit that could be changed.
    """
    for pid, end in ((cluster, name), (holder, "eth0")):
        run(*in_namespace(pid), "tc", "qdisc", "change", "dev", end, "root", *limit_arguments(link))


def lay_host(host_link: str, address: str, pid: int) -> None:
    """Create the host's link into the cluster's namespace, that of process `pid`."""
    run("ip", "link", "add", host_link, "type", "veth", "peer", "name", "host", "netns", str(pid))
    run(*in_namespace(pid), "ip", "link", "set", "host", "master", "switch", "up")
    run("ip", "addr", "add", f"{address}/24", "dev", host_link)
    run("ip", "link", "set", host_link, "up")


def take_down() -> None:
    """Remove the links to the host and between the nodes at once, inside the cluster's namespace."""
    run("ip", "link", "delete", "host")
    run("ip", "link", "delete", "switch")


def in_namespace(pid: int) -> tuple[str, ...]:
    """Return the prefix of a command that runs in the network namespace of process `pid`."""
    return ("nsenter", f"--net=/proc/{pid}/ns/net", "--")


def limit_arguments(link: str) -> Sequence[str]:
    """Return the queueing discipline of a rate limit in the words of ``tc``."""
    # The bucket holds 8 ms of traffic: with less, a kernel that ticks at 250 Hz cannot reach high rates; and no less
    # than 32 kB, the value with which the limits in our measurements were taken.
    burst = max(32_768, int(link_bits_per_s(link) / 8 * 0.008))
    return ("tbf", "rate", link, "burst", str(burst), "latency", "50ms")


def run(*command: str) -> str:
    """Run a system command and return its output.

    Raises
    ------
    ClusterError
        A command failed; the message has the command and its output.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(f"{' '.join(command)}: {done.stderr.strip() or f'exit code {done.returncode}'}")
    return done.stdout
