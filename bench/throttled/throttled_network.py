"""Network namespaces, one a rank, on a bridge in its own namespace; links of a given rate.

Needs root, `ip` and `tc`. Nothing is made in the machine's own network, and leaving the `with`
block ends whatever still runs in the namespaces and removes them.
"""
import json
import os
import signal
import stat
import subprocess

SUBNET = "10.77.0"
DEVICE = "eth0"  # of a rank, in its namespace
FRAME = 1514 / 1448  # bytes on the wire for one of payload: Ethernet, IP and TCP of full frames


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Network:
    """`ranks` namespaces; rank r has the address SUBNET.(r + 1)."""

    def __init__(self, ranks):
        self.ranks = ranks
        self.prefix = f"link{os.getpid()}"
        self.hub = f"{self.prefix}-hub"

    def name(self, rank):
        return f"{self.prefix}-{self.address(rank)}"

    @staticmethod
    def address(rank):
        return f"{SUBNET}.{rank + 1}"

    def __enter__(self):
        try:
            self.make()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_):
        self.remove()

    def make(self):
        run("ip", "netns", "add", self.hub)
        run("ip", "-n", self.hub, "link", "set", "lo", "up")
        run("ip", "-n", self.hub, "link", "add", "name", "hub0", "type", "bridge")
        run("ip", "-n", self.hub, "addr", "add", f"{SUBNET}.254/24", "dev", "hub0")
        run("ip", "-n", self.hub, "link", "set", "hub0", "up")
        for rank in range(self.ranks):
            own = self.name(rank)
            run("ip", "netns", "add", own)
            run("ip", "link", "add", f"v{rank}", "netns", self.hub, "type", "veth",
                "peer", "name", DEVICE, "netns", own)
            run("ip", "-n", self.hub, "link", "set", f"v{rank}", "master", "hub0", "up")
            run("ip", "-n", own, "link", "set", "lo", "up")
            run("ip", "-n", own, "addr", "add", f"{self.address(rank)}/24", "dev", DEVICE)
            run("ip", "-n", own, "link", "set", DEVICE, "up")

    def remove(self):
        for name in [self.name(rank) for rank in range(self.ranks)] + [self.hub]:
            for pid in self.processes(name):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            subprocess.run(["ip", "netns", "del", name], capture_output=True)

    @staticmethod
    def processes(name):
        out = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout
        return [int(pid) for pid in out.split()]

    def throttle(self, mbit, latency="50ms"):
        """Both directions of every rank's link take `mbit` Mbit/s; 0: as fast as the machine."""
        for rank in range(self.ranks):
            for name, device in ((self.name(rank), DEVICE), (self.hub, f"v{rank}")):
                if mbit:
                    run("tc", "-n", name, "qdisc", "replace", "dev", device, "root", "tbf", "rate",
                        f"{mbit}mbit", "burst", "256kb", "latency", latency)
                else:
                    subprocess.run(["tc", "-n", name, "qdisc", "del", "dev", device, "root"],
                                   capture_output=True)

    def sent(self):
        """Bytes that each rank has sent over its link so far."""
        links = json.loads(run("ip", "-n", self.hub, "-s", "-j", "link"))
        by_name = {link["ifname"]: link["stats64"]["rx"]["bytes"] for link in links}
        return [by_name[f"v{rank}"] for rank in range(self.ranks)]

    def agent(self, folder):
        """A program that mpirun starts its daemons with, in place of ssh: HOST COMMAND..."""
        file = folder / "agent.sh"
        file.write_text('#!/bin/sh\nhost=$1\nshift\n'
                        f'exec ip netns exec "{self.prefix}-$host" sh -c "$*"\n')
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        return file
