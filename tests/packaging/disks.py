"""`make disks-test`: what the package's units outlive at their disks, on one machine under systemd.

The disks of the agent, the vault and the feed are full, not writable, gone and back, or have damaged files. After each,
all three must be back at work by themselves. Needs podman, root and a quarter of an hour.
"""

import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.packaging.deb import alone
from tests.packaging.device import VAULT, Ledger, check, days, eventually, property_of, status, step
from tests.packaging.machines import Machine, machines, one_line
from tests.packaging.outlived import CONFIG, FAULT_SECONDS, STATE
from tests.packaging.package import build
from tests.support.home import GLOW, glow

STEPS = 2000
RECORDS = "/var/lib/sottovoce-records"
_FEED = """
[feed]
broker = "mqtt://127.0.0.1:1883"
store = "/var/lib/sottovoce-records/windows.db"
window = 60

[[feed.meters]]
name = "house"
format = "glow"
names = { device = "C8C9A3000000" }
replay = true
"""


@dataclass(frozen=True, slots=True)
class Disk:
    """A small disk with the state of one unit.

    Attributes:
        unit: the unit.
        at: the directory of its state, on which the disk is mounted.
        caches: files that are replaced if they are damaged.
    """

    unit: str
    at: str
    caches: tuple[str, ...]

    @property
    def image(self) -> str:
        """The file that is the disk."""
        return f"/srv/{self.unit}.img"


DISKS = (
    Disk("sottovoce-agent", STATE, ("heads.db", "peers.db", "written")),
    Disk("sottovoce-vault", VAULT, ("ledger.db.written",)),
    Disk("sottovoce-feed", RECORDS, ("windows.db",)),
)
ALL = " ".join(disk.unit for disk in DISKS)


class Meter:
    """The home's meter, whose past minutes are published one by one, and the windows that the feed has stored."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._minute = 0

    def publish(self, minutes: int) -> None:
        """Publish the next minutes."""
        later = range(self._minute, self._minute + minutes)
        self._machine.sh(f"mosquitto_pub -l -q 1 -t {GLOW}", stdin="\n".join(glow(m, 100 + 0.01 * m) for m in later))
        self._minute += minutes

    def windows(self) -> int:
        """The number of windows that are stored."""
        show = "setpriv --reuid sottovoce-vault --regid sottovoce-vault --clear-groups sottovoce feed show"
        meters = json.loads(self._machine.sh(f"{show} --config {CONFIG} --json"))["meters"]
        return int(meters.get("house", {"windows": 0})["windows"])


def prepared(hub: Machine, package: Path, scratch: Path) -> Meter:
    """Install a device that is alone, with a feed and a broker, and each unit's state on a disk of its own."""
    features, labels = days(400, 1)
    np.savez(scratch / "records.npz", X=features, y=labels, classes=3)
    hub.put(scratch / "records.npz", "records.npz")
    hub.put(package, package.name)
    hub.sh("apt-get update && apt-get install -y --no-install-recommends ./sottovoce_*.deb mosquitto mosquitto-clients")
    hub.sh("systemctl start mosquitto")
    hub.sh(f"install -o sottovoce-vault -g sottovoce-vault -m 600 records.npz {RECORDS}/")
    hub.sh(f"sed -i 's/^# period = 10.0/period = 1.0/; s/^# steps = .*/steps = {STEPS}/' {CONFIG}")
    alone(hub)
    hub.sh(f"systemctl disable --now sottovoce-agent sottovoce-vault && cat >> {CONFIG}", stdin=_FEED)
    for disk in DISKS:
        hub.sh(
            f"truncate -s 32M {disk.image} && mkfs.ext4 -q {disk.image} && mv {disk.at} moved && mkdir -m 700 {disk.at}"
        )
        hub.sh(f"echo {disk.image} {disk.at} ext4 loop,nofail 0 0 >> /etc/fstab && systemctl daemon-reload")
        hub.sh(f"mount {disk.at} && cp -a moved/. {disk.at}/ && chown --reference=moved {disk.at} && rm -r moved")
    hub.sh(f"systemctl enable --now {ALL}")
    meter = Meter(hub)
    at_work(hub, meter)
    return meter


def at_work(hub: Machine, meter: Meter) -> None:
    """Check that all three work: the agent's cycles, the vault's steps, the feed's windows; print how long it took."""
    begun = time.monotonic()
    steps = eventually(lambda: status(hub)["steps_done"] + 1, "the agent answers")
    eventually(lambda: status(hub)["steps_done"] > steps, "the vault answers it")

    def stores_more() -> bool:
        meter.publish(2)
        return meter.windows() > windows

    windows = eventually(lambda: meter.windows() + 1, "the feed's store can be read") - 1
    eventually(stores_more, "and the feed stores windows")
    print(f"    at work {time.monotonic() - begun:.1f} s after it was over")


def outlives(hub: Machine, meter: Meter, words: str, begin: str, end: str, *, keeps_windows: bool = True) -> None:
    """Make a fault come, stay a while and go; check that the units are back at work, and what was lost."""
    with step(words):
        before, windows = Ledger.of(hub), meter.windows()
        hub.sh(begin)
        meter.publish(10)
        time.sleep(FAULT_SECONDS)
        for disk in DISKS:
            state, text = property_of(hub, disk.unit, "ActiveState"), property_of(hub, disk.unit, "StatusText")
            print(f"    meanwhile, {disk.unit}: {state} {text}")
        hub.sh(end)
        at_work(hub, meter)
        before.goes_on_in(Ledger.of(hub), "the ledger", STEPS)
        if keeps_windows:
            check(meter.windows() >= windows + 10, "no window is lost")
        defects = hub.sh("journalctl --no-pager -u 'sottovoce*' | grep -A 20 'internal error\\|Traceback' || true")
        check(not defects, f"no defect in the journal {defects}")


def faults(hub: Machine, meter: Meter) -> None:
    """What passes by itself, for each disk."""
    for disk in DISKS:
        fill = f"dd if=/dev/zero of={disk.at}/filler bs=4k; dd if=/dev/zero of={disk.at}/rest bs=1"
        full = f"({fill}) 2>/dev/null || true"
        outlives(hub, meter, f"{disk.unit}: the disk is full", full, f"rm -f {disk.at}/filler {disk.at}/rest")
        lazily = f"umount --lazy {disk.at}"
        outlives(hub, meter, f"{disk.unit}: the disk is gone and back", lazily, f"mount {disk.at}")
        outlives(
            hub,
            meter,
            f"{disk.unit}: the disk is gone, the units start, and it is back",
            f"systemctl stop {ALL}; umount {disk.at}; mv {disk.image} /srv/gone; systemctl start --no-block {ALL}",
            f"mv /srv/gone {disk.image}; mount {disk.at}",
            keeps_windows=False,
        )
        outlives(
            hub,
            meter,
            f"{disk.unit}: the disk may not be written",
            f"systemctl stop {ALL}; mount -o remount,ro {disk.at}; systemctl start --no-block {ALL}",
            f"mount -o remount,rw {disk.at}",
            keeps_windows=False,
        )
        for cache in disk.caches:
            outlives(
                hub,
                meter,
                f"{disk.unit}: {cache} is damaged",
                f"systemctl stop {ALL}; test -e {disk.at}/{cache}; echo damaged > {disk.at}/{cache}; "
                f"rm -f {disk.at}/{cache}-wal {disk.at}/{cache}-shm; systemctl start --no-block {ALL}",
                "true",
                keeps_windows=False,
            )


def main(release: str) -> None:
    """Build the package for a release of Debian, and do all of it."""
    with one_line("disks-test"):
        package = build(release)
        with tempfile.TemporaryDirectory() as directory, machines("hub", release=release) as (hub,):
            meter = prepared(hub, package, Path(directory))
            faults(hub, meter)
    print(f"disks-test: everything passed on {release}")


if __name__ == "__main__":
    main(sys.argv[1])
