"""Network namespaces for the hosts of a `Cluster`: each has an address of its own, and a cable that can be cut.

Needs root, and the programs `ip` and `tc` (Debian: iproute2) and `nft` (nftables).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

_PREFIX = "raymesh"


class Network:
    """A bridge of this machine, and namespaces that are connected to it.

    Raises PermissionError without root, FileNotFoundError without the programs.
    """

    def __init__(self) -> None:
        if os.geteuid() != 0:
            raise PermissionError(
                "Only root may make network namespaces.\nhint: run this as root, or give the cluster none."
            )
        for program in ("ip", "tc", "nft"):
            if shutil.which(program) is None:
                raise FileNotFoundError(
                    f"The program {program!r} is missing.\nhint: install iproute2 and nftables."
                )
        _sweep()
        for number in range(256):
            self._number = (os.getpid() + number) % 256
            self._bridge = f"{_PREFIX}{self._number}"
            try:
                _run("ip", "link", "add", self._bridge, "type", "bridge")
            except RuntimeError:
                continue  # another network's
            break
        else:
            raise RuntimeError("There are 256 networks of clusters on this machine already.")
        # Who made it, should nobody end it.
        _run("ip", "link", "set", self._bridge, "alias", f"pid {os.getpid()}")
        _run("ip", "address", "add", f"{self._address(1)}/24", "dev", self._bridge)
        _run("ip", "link", "set", self._bridge, "up")
        self._namespaces: list[Namespace] = []
        self._made = 0

    def _address(self, host: int) -> str:
        return f"10.213.{self._number}.{host}"

    def add(self) -> Namespace:
        """One more namespace with a cable to the bridge.

        Raises RuntimeError beyond 250.
        """
        self._made += 1
        if self._made > 250:
            raise RuntimeError("A network has room for 250 hosts.")
        address = self._address(self._made + 1)
        name = f"{_PREFIX}-{os.getpid()}-{self._number}-{self._made}"
        made = Namespace(name, address, f"rm{self._number}n{self._made}")
        self._namespaces.append(made)
        _run("ip", "netns", "add", name)
        _run("ip", "link", "add", made.cable, "type", "veth", "peer", "name", "eth0", "netns", name)
        _run("ip", "link", "set", made.cable, "master", self._bridge, "up")
        _run("ip", "-n", name, "address", "add", f"{address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _run("ip", "-n", name, "link", "set", device, "up")
        return made

    def close(self) -> None:
        """Removes all of it."""
        for namespace in self._namespaces:
            namespace.close()
        self._namespaces.clear()
        subprocess.run(["ip", "link", "del", self._bridge], check=False, stderr=subprocess.DEVNULL)


class Namespace:
    """A namespace of a `Network`, and faults of what leads to it."""

    def __init__(self, name: str, address: str, cable: str) -> None:
        self.name = name
        self.address = address
        """Its IP."""
        self.cable = cable
        """The end of its cable that is at the bridge."""

    @property
    def command(self) -> list[str]:
        """What to put before a command that is to run in it."""
        return ["ip", "netns", "exec", self.name]

    def cut(self) -> None:
        """Takes the cable out."""
        _run("ip", "link", "set", self.cable, "down")

    def drop(
        self, *, to: str = "", incoming: bool = True, outgoing: bool = True, share: float = 1.0
    ) -> None:
        """Loses packets without a word: those from and to the IP `to`, or all; this share of them."""
        lot = "" if share >= 1 else f"numgen random mod 1000 < {round(share * 1000)} "
        rules = []
        if incoming:
            rules.append(f"input {f'ip saddr {to} ' if to else ''}{lot}drop")
        if outgoing:
            rules.append(f"output {f'ip daddr {to} ' if to else ''}{lot}drop")
        self._rules(rules)

    def reset(self) -> None:
        """Ends every connection as soon as something arrives on it."""
        self._rules(["input meta l4proto tcp reject with tcp reset"])

    def _rules(self, rules: list[str]) -> None:
        text = "table inet faults {}\ndelete table inet faults\ntable inet faults {\n"
        for chain in ("input", "output"):
            text += f"chain {chain} {{ type filter hook {chain} priority 0; }}\n"
        text += "}\n" + "".join(f"add rule inet faults {rule}\n" for rule in rules)
        _run(*self.command, "nft", "-f", "-", text=text)

    def throttle(self, megabits: float) -> None:
        """Lets no more through, each way, in a second."""
        self._queue("tbf", "rate", f"{megabits}mbit", "burst", "64kb", "latency", "100ms")

    def delay(
        self,
        milliseconds: float,
        *,
        jitter: float = 0.0,
        loss: float = 0.0,
        reorder: float = 0.0,
        duplicate: float = 0.0,
    ) -> None:
        """Has every packet take so long, each way, give or take `jitter`; the others are shares of all packets.

        It takes the place of `throttle`. Raises RuntimeError if the kernel has no netem.
        """
        rule = ["netem", "limit", "100000", "delay", f"{milliseconds}ms", f"{jitter}ms"]
        for name, share in (("loss", loss), ("reorder", reorder), ("duplicate", duplicate)):
            if share:
                rule += [name, f"{100 * share}%"]
        try:
            self._queue(*rule)
        except RuntimeError as error:
            raise RuntimeError(
                f"Packets cannot be delayed here: {error}\n"
                "hint: the kernel needs netem (Debian: modprobe sch_netem; CONFIG_NET_SCH_NETEM)."
            ) from None

    def _queue(self, *rule: str) -> None:
        """How packets wait at both ends of the cable."""
        _run("tc", "-n", self.name, "qdisc", "replace", "dev", "eth0", "root", *rule)
        _run("tc", "qdisc", "replace", "dev", self.cable, "root", *rule)

    def mend(self) -> None:
        """Ends all faults."""
        self._rules([])
        for where in (["tc", "-n", self.name], ["tc"]):
            device = "eth0" if len(where) > 1 else self.cable
            command = [*where, "qdisc", "del", "dev", device, "root"]
            subprocess.run(command, check=False, stderr=subprocess.DEVNULL)
        _run("ip", "link", "set", self.cable, "up")

    def close(self) -> None:
        """Removes it."""
        for command in (["ip", "link", "del", self.cable], ["ip", "netns", "del", self.name]):
            subprocess.run(command, check=False, stderr=subprocess.DEVNULL)


def _run(*command: str, text: str | None = None) -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"`{' '.join(command)}` fails: {done.stderr.strip()}")
    return done.stdout


def _sweep() -> None:
    """Removes what processes that were killed have left."""
    for line in _run("ip", "netns", "list").splitlines():
        name = line.split()[0] if line.split() else ""
        parts = name.split("-")
        if parts[0] == _PREFIX and len(parts) == 4 and not Path("/proc", parts[1]).exists():
            subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)
    for device in Path("/sys/class/net").glob(f"{_PREFIX}*"):
        try:
            alias = (device / "ifalias").read_text().split()
        except OSError:
            continue
        if len(alias) == 2 and not Path("/proc", alias[1]).exists():
            subprocess.run(
                ["ip", "link", "del", device.name], check=False, stderr=subprocess.DEVNULL
            )
