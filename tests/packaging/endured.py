"""`make endured-test`: what the package's units outlive, on two machines under systemd.

Strangers by the thousand at the agent's port, at its metrics, and at the vault's socket; then a full disk, a disk that
may not be written, no descriptors, a wrong clock, an address that is gone, a damaged state. Prints every step and what
it measured; the first that fails ends it. Runs on one Debian release. Needs podman, root and half an hour.
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tests.packaging.device import VAULT, Ledger, check, days, eventually, property_of, status, step
from tests.packaging.machines import Machine, machines, one_line
from tests.packaging.outlived import CONFIG, PERIOD, SECONDS, STATE, STEPS, address, heals, outlives, spoken
from tests.packaging.package import build
from tests.support.floods import KINDS, flood

METRICS_PORT = 9464

# Someone on the machine, with many connections to the vault's socket that say nothing, each made again.
_AT_THE_SOCKET = """
import socket, sys, time
until, idle = time.monotonic() + float(sys.argv[1]), []
while time.monotonic() < until:
    while len(idle) < 1000:
        caller = socket.socket(socket.AF_UNIX)
        caller.setblocking(False)
        try:
            caller.connect("/run/sottovoce-vault/vault.sock")
        except OSError:
            caller.close()
            break
        idle.append(caller)
    time.sleep(0.01)
    for caller in list(idle):
        try:
            if caller.recv(4096) == b"":
                raise OSError
        except BlockingIOError:
            continue
        except OSError:
            idle.remove(caller)
            caller.close()
"""
# What the feed's user, in the agent's group, has for Home Assistant.
_SHOWN = """
import json
from pathlib import Path
from sottovoce_home.panel import Panel
from sottovoce.config import load
print(json.dumps(Panel(load(Path("/etc/sottovoce/agent.toml")), "0123456789ab").read_state()))
"""
_FETCH = "/usr/bin/python3 -c 'import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read().decode())'"
# The clock that the agent sees, from a file: who shares a kernel with others cannot set that of the machine.
_CLOCK = """[Service]
Environment=LD_PRELOAD=/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1
Environment=FAKETIME_TIMESTAMP_FILE=/etc/faketime FAKETIME_NO_CACHE=1
Environment=FAKETIME_DONT_FAKE_MONOTONIC=1 FAKETIME_DISABLE_SHM=1
"""


def prepared(hub: Machine, kitchen: Machine, package: Path, scratch: Path) -> None:
    """Two devices of a fleet, each with its state and its ledger on small disks of their own, and a clock to set."""
    for seed, machine in enumerate((hub, kitchen), start=1):
        features, labels = days(400, seed)
        np.savez(scratch / "records.npz", X=features, y=labels, classes=3)
        machine.put(scratch / "records.npz", "records.npz")
        machine.put(package, package.name)
        machine.sh("apt-get update && apt-get install -y ./sottovoce_*.deb libfaketime && echo +0 > /etc/faketime")
        machine.sh("install -o sottovoce-vault -g sottovoce-vault -m 600 records.npz /var/lib/sottovoce-records/")
        here = address(machine)
        settings = f's/^announce = .*/announce = "{here}:7400"/; s/^# period = 10.0/period = {PERIOD}/'
        settings += f'; s/^# steps = .*/steps = {STEPS}\\nmixing = "push-sum"/; s/^# period = 60.0/period = 4.0/'
        machine.sh(f"sed -i '{settings}' {CONFIG}")
        machine.sh(f"cat >> {CONFIG}", stdin=f'\n[observe]\nmetrics = "{here}:{METRICS_PORT}"\nallow_remote = true\n')
    places = f"--state {STATE} --vault {VAULT}"
    hub.sh(f"sottovoce fleet init --name street --fleet street && sottovoce fleet join --fleet street {places}")
    show = f"sottovoce fleet show --state {STATE} | awk '/^id / {{ print $2 }}'"
    hub.sh(f'sottovoce fleet invite --fleet street --out kitchen.bundle --seed "$({show})@{address(hub)}:7400"')
    (scratch / "kitchen.bundle").write_text(hub.sh("cat kitchen.bundle"))
    kitchen.put(scratch / "kitchen.bundle", "kitchen.bundle")
    kitchen.sh(f"sottovoce fleet join --bundle kitchen.bundle {places}")
    for machine in (hub, kitchen):
        for place in (STATE, VAULT):
            disk = f"mount -t tmpfs -o size=32m,mode=0700 tmpfs {place}"
            machine.sh(f"cp -a {place} moved && {disk} && cp -a moved/. {place} && rm -r moved")
        machine.sh("systemctl start sottovoce-agent")
    for machine in (hub, kitchen):
        eventually(lambda m=machine: status(m)["steps_done"] >= 2, f"{machine.name} is at work")  # type: ignore[misc]


@contextmanager
def somebody_at_the_socket(machine: Machine) -> Iterator[None]:
    """Another user of the machine."""
    user = "setpriv --reuid nobody --regid nogroup --clear-groups prlimit --nofile=4096"
    machine.sh("cat > /tmp/strangers.py", stdin=_AT_THE_SOCKET)
    with machine.background(f"{user} /usr/bin/python3 /tmp/strangers.py {SECONDS}") as strangers:
        yield
        check(strangers.wait(60) == 0, "there were strangers at the socket")


def floods(hub: Machine) -> None:
    """Strangers from elsewhere, and one on the machine itself."""
    for port, name in ((7400, "the agent's port"), (METRICS_PORT, "its metrics")):
        for kind in KINDS:
            outlives(hub, f"strangers at {name}: {kind}", flood(kind, f"{address(hub)}:{port}", SECONDS))
    outlives(hub, "strangers at the vault's socket", somebody_at_the_socket(hub))


def faults(hub: Machine) -> None:
    """What passes by itself."""
    for place, name, kind in ((STATE, "the state", "disk"), (VAULT, "the ledger", "vault")):
        full = (
            f"dd if=/dev/zero of={place}/filler bs=4k 2>/dev/null || true; dd if=/dev/zero of={place}/rest bs=1 || true"
        )
        heals(hub, f"the disk of {name} is full", f"({full}) 2>/dev/null", f"rm {place}/filler {place}/rest")
        still = (
            "systemctl stop sottovoce-agent sottovoce-vault"  # who has a file open keeps a disk from being remounted
        )
        stuck = f"{still}; mount -o remount,ro {place}; systemctl start --no-block sottovoce-agent sottovoce-vault"
        heals(hub, f"the disk of {name} may not be written", stuck, f"mount -o remount,rw {place}", shows=kind)
    pid = property_of(hub, "sottovoce-agent", "MainPID")  # the vault's are used up by strangers at its socket, above
    few, many = f"prlimit --pid {pid} --nofile=12:", f"prlimit --pid {pid} --nofile=1024:"
    heals(hub, "no descriptors are left", few, many)
    drop_in = "/run/systemd/system/sottovoce-agent.service.d"
    hub.sh(f"mkdir -p {drop_in} && cat > {drop_in}/clock.conf", stdin=_CLOCK)
    hub.sh("systemctl daemon-reload && systemctl restart sottovoce-agent")
    for shift in ("+1d", "-1d"):
        heals(hub, f"the clock is wrong by {shift}", f"echo {shift} > /etc/faketime", "echo +0 > /etc/faketime")
        heals(
            hub,
            f"the clock is wrong by {shift}, and the units are started with it",
            f"echo {shift} > /etc/faketime; systemctl restart sottovoce-agent --no-block",
            "echo +0 > /etc/faketime",
        )
    hub.sh(f"rm -r {drop_in}; systemctl daemon-reload && systemctl restart sottovoce-agent")
    here = f"{address(hub)}/24"
    heals(hub, "its address is gone", f"ip addr del {here} dev eth0", f"ip addr add {here} dev eth0")


def mass(hub: Machine, kitchen: Machine) -> None:
    """Nothing of the push-sum's mass was lost or made, whatever happened; and every charge and release is in order."""
    with step("mass and ledgers are exact"):
        eventually(
            lambda: sum(status(machine)["push_sum_weight"] for machine in (hub, kitchen)) == 2.0,
            "the weights of both, at a moment when nothing is on its way, are two",
        )
        for machine in (hub, kitchen):
            print("    " + machine.sh(f"sottovoce ledger verify --state {VAULT}").strip())
            failed = machine.sh("journalctl -u 'sottovoce*' | grep -c 'internal error' || true").strip()
            check(failed == "0", f"{machine.name}: no defect in the journal")


def needs_a_person(hub: Machine) -> None:
    """Something is damaged: that is said everywhere, and over by itself once someone has mended it."""
    with step("the state is damaged"):
        before = Ledger.of(hub)
        hub.sh(f"systemctl stop sottovoce-agent; cp -p {STATE}/state.db kept; echo damaged > {STATE}/state.db")
        hub.sh("systemctl start sottovoce-agent")
        output = spoken(hub)
        print("    " + output.strip().replace("\n", "\n    "))
        check("needs a person (data)" in output, "its status")
        check("needs a person: data" in property_of(hub, "sottovoce-agent", "StatusText"), "its unit")
        page = hub.sh(f"{_FETCH} http://{address(hub)}:{METRICS_PORT}/metrics")
        check("sottovoce_needs_a_person 1.0" in page, "its metrics")
        feed = "setpriv --reuid sottovoce-vault --regid sottovoce-vault --groups sottovoce"
        shown = json.loads(hub.sh(f"{feed} /usr/lib/sottovoce/bin/python3 -I -", stdin=_SHOWN))
        check(
            (shown["state"], shown["needs_a_person"]) == ("needs-a-person", "ON"), f"Home Assistant: {shown['trouble']}"
        )
        hub.sh(f"cp -p kept {STATE}/state.db && systemctl restart sottovoce-agent")
        eventually(lambda: status(hub)["steps_done"] >= before.releases, "it goes on")


def main(release: str) -> None:
    """Build the package for a release of Debian, and do all of it."""
    with one_line("endured-test"):
        package = build(release)
        with (
            tempfile.TemporaryDirectory() as directory,
            machines("hub", "kitchen", release=release) as (hub, kitchen),
        ):
            prepared(hub, kitchen, package, Path(directory))
            floods(hub)
            faults(hub)
            mass(hub, kitchen)
            needs_a_person(hub)
    print(f"endured-test: everything passed on {release}")


if __name__ == "__main__":
    main(sys.argv[1])
