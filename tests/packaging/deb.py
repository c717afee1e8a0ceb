"""`make deb-test`: the package on three clean machines with a real systemd, by the commands of docs/how-to/install.md.

Installs, creates a fleet, lets two devices join it, and lets all three learn together. Then kills, hangs, reboots,
upgrades, removes and purges them. Does so on each Debian release that is named; with both, it also upgrades a device
from one to the other. Prints every step; the first that fails ends it. Needs podman, root and ten minutes a release.
"""

import hashlib
import re
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

from tests.packaging.device import (
    EPSILON,
    STEPS,
    UNITS,
    VAULT,
    Ledger,
    accuracy,
    check,
    days,
    eventually,
    files,
    model,
    property_of,
    running,
    status,
    step,
)
from tests.packaging.machines import Machine, machines, one_line
from tests.packaging.package import RELEASES, build, higher, newer, version
from tests.packaging.page import Walk, debian_upgrade

_FEED = """
[feed]
broker = "mqtt://127.0.0.1:1883"
store = "/var/lib/sottovoce-records/windows.db"

[[feed.meters]]
name = "house"
format = "glow"
names = { device = "C8C9A3000000" }
"""

_NETWORK = """
name = "days"
input = [24]
classes = 3
loss = "softmax"

[[layers]]
kind = "dense"
units = 16

[[layers]]
kind = "tanh"

[[layers]]
kind = "dense"
units = 3
"""


def compiled(machine: Machine, series: str) -> None:
    """Check that every module has byte-code for the machine's Python, and that nothing else has."""
    count = "find /usr/lib/sottovoce -name {} -printf '%f\\n' | wc -l"
    modules, ours, every = (int(machine.sh(count.format(f"'*{ending}'"))) for ending in (
        ".py", f".cpython-{series.replace('.', '')}.pyc", ".pyc",
    ))  # fmt: skip
    check(modules == ours == every > 0, f"{ours} of {modules} modules are compiled for Python {series}")


def install(walk: Walk, hub: Machine, kitchen: Machine, attic: Machine, series: str, scratch: Path) -> None:
    """Turn three clean machines into three devices of a fleet."""
    with step("the package installs on a machine that has nothing"):
        begun = time.monotonic()
        output = walk.run("hub", "apt-get install")
        print(f"    installed in {time.monotonic() - begun:.1f} s")
        check("sottovoce fleet join --token -" in output, "installing says the next command")
        compiled(hub, series)
        for unit in UNITS:
            check(property_of(hub, unit, "UnitFileState") == "enabled", f"{unit} starts with the machine")
            check(property_of(hub, unit, "ActiveState") == "inactive", f"{unit} has not been started")
        hub.sh("systemctl start sottovoce-agent")
        failed = hub.sh("systemctl list-units --failed --quiet 'sottovoce*'")  # in a container, others fail
        check(not failed, "starting a device that belongs to no fleet does no harm")
        hub.sh("sottovoce config check /etc/sottovoce/agent.toml && sottovoce --version")
        check("FILES" in hub.sh("zcat /usr/share/man/man1/sottovoce.1.gz"), "there is a manual page")
        completed = hub.sh(
            "source /usr/share/bash-completion/completions/sottovoce; COMP_WORDS=(sottovoce ag); COMP_CWORD=1; "
            "_sottovoce_completion sottovoce; echo ${COMPREPLY[@]}"
        )
        check("agent" in completed, "bash completes commands")
        writable = hub.sh("find /usr/lib/sottovoce ! -type l \\( -perm /022 -o ! -user root \\)")
        check(not writable, "nobody but root writes the program")
        modes = hub.sh("stat -c '%U %a' /var/lib/sottovoce-records").strip()
        check(modes == "sottovoce-vault 700", "the records' directory is the vault's alone")
    with step("the first device makes a fleet"):
        walk.run("hub", "announce")
        walk.run("hub", "fleet init")
        check(running(hub), "agent and vault run")
        hub.sh("cat /etc/sottovoce/agent.toml")
    with step("another joins by a token, in five commands"):
        inviting = hub.background(walk.block("hub", "--serve").script)
        assert inviting.stdout is not None
        token = inviting.stdout.readline()
        for machine in (kitchen, attic):
            (scratch / "agent.toml").write_text(hub.sh("cat /etc/sottovoce/agent.toml"))
            machine.put(scratch / "agent.toml", "agent.toml")
        walk.run("kitchen", "--token", stdin=token)
        check(inviting.wait(60) == 0, "the invitation is used up")
        check(running(kitchen), "agent and vault run")
    with step("another joins by a file"):
        walk.run("hub", "--out attic.bundle")
        (scratch / "attic.bundle").write_text(hub.sh("cat attic.bundle && rm attic.bundle"))
        attic.put(scratch / "attic.bundle", "attic.bundle")
        walk.run("attic", "--bundle")
        check(running(attic), "agent and vault run")


def confined(machine: Machine) -> None:
    """Check the confinement that systemd has really given the units."""
    with step(f"the processes on {machine.name} are confined"):
        for unit, user in zip(UNITS, ("sottovoce", "sottovoce-vault"), strict=True):
            pid = property_of(machine, unit, "MainPID")
            owner = machine.sh(f"id -un $(awk '/^Uid/ {{ print $2 }}' /proc/{pid}/status)").strip()
            check(owner == user, f"{unit} runs as {user}")
            judged = machine.sh(f"systemd-analyze security --threshold=15 --no-pager {unit} | tail -1", check=False)
            exposure = re.search(r": ([0-9.]+)", judged)
            check(exposure is not None and float(exposure[1]) <= 1.5, f"{unit}: exposure {exposure and exposure[1]}")
            check(
                "device" in property_of(machine, unit, "StatusText"),
                f"{unit}: {property_of(machine, unit, 'StatusText')}",
            )
        pid = property_of(machine, "sottovoce-vault", "MainPID")
        links = machine.sh(f"nsenter -t {pid} -n ip -br link | grep -v '^lo ' || true").strip()
        check(not links, "the vault has no network")
        owners = machine.sh(f"find /var/lib/sottovoce {VAULT} -printf '%U\\n' | sort -u | wc -l").strip()
        check(owners == "2", "the first start gave both directories to their users")
        hidden = "setpriv --reuid sottovoce --regid sottovoce --clear-groups cat"
        seen = machine.sh(
            f"{hidden} {VAULT}/ledger.db /var/lib/sottovoce-records/records.npz 2>/dev/null | wc -c || true"
        )
        check(seen.strip() == "0", "the agent's user reads neither ledger nor records")


def learning(devices: tuple[Machine, ...]) -> None:
    with step("all three learn together"):
        for machine in devices:
            eventually(lambda m=machine: len(status(m)["peers"]) == 2, f"{machine.name} has both others as peers")  # type: ignore[misc]
            eventually(lambda m=machine: status(m)["steps_done"] >= 4, f"{machine.name} has taken private steps")  # type: ignore[misc]


def at_work(machine: Machine, before: Ledger, words: str) -> None:
    """Check that both processes run, and know of all that had been released."""
    eventually(lambda: running(machine) and status(machine)["steps_done"] >= before.releases, words)
    before.goes_on_in(Ledger.of(machine), "the ledger")


def started_again(machine: Machine, unit: str, pid: str) -> None:
    eventually(lambda: property_of(machine, unit, "MainPID") not in ("0", pid), f"{unit} is started again")


def killed(machine: Machine, unit: str) -> None:
    with step(f"kill -9 of {unit} on {machine.name}"):
        before, pid = Ledger.of(machine), property_of(machine, unit, "MainPID")
        other = next(name for name in UNITS if name != unit)
        lasting = property_of(machine, other, "MainPID")
        machine.sh(f"kill -9 {pid}")
        started_again(machine, unit, pid)
        at_work(machine, before, "and at work")
        check(property_of(machine, other, "MainPID") == lasting, f"{other} went on meanwhile")


def hung(machine: Machine, unit: str) -> None:
    """Hang a unit, with its watchdog shortened from minutes to seconds."""
    with step(f"{unit} on {machine.name} hangs"):
        before, drop_in = Ledger.of(machine), f"/run/systemd/system/{unit}.service.d"
        quick = "[Service]\nWatchdogSec=6\nTimeoutAbortSec=1\n"
        restart = f"systemctl daemon-reload; systemctl restart {unit}"
        machine.sh(f"mkdir -p {drop_in}; cat > {drop_in}/quick.conf; {restart}", stdin=quick)
        pid = property_of(machine, unit, "MainPID")
        time.sleep(15)
        check(property_of(machine, unit, "MainPID") == pid, "one that does not hang is left alone")
        machine.sh(f"kill -STOP {pid}")
        started_again(machine, unit, pid)
        at_work(machine, before, "and at work")
        machine.sh(f"rm -r {drop_in}; {restart}")
        at_work(machine, before, "also with the package's own watchdog")


def switched_off(machine: Machine) -> None:
    with step(f"{machine.name} is switched off and on"):
        before = Ledger.of(machine)
        machine.reboot()
        at_work(machine, before, "both start with the machine")


def upgraded(attic: Machine, package: Path, series: str) -> None:
    with step("attic is upgraded in place"):
        before, pids = Ledger.of(attic), [property_of(attic, unit, "MainPID") for unit in UNITS]
        attic.sh("rm sottovoce_*.deb")
        attic.put(package, package.name)
        attic.sh("apt-get install -y ./sottovoce_*.deb")
        installed = attic.sh("dpkg-query -W -f '${Version}' sottovoce")
        check(installed.endswith("+upgraded"), f"version {installed}")
        compiled(attic, series)
        eventually(lambda: running(attic) and status(attic)["id"] == before.owner, "both run, with the same identity")
        now = [property_of(attic, unit, "MainPID") for unit in UNITS]
        check(all(new != old for new, old in zip(now, pids, strict=True)), "both were started again")
        check("period = 4.0" in attic.sh("cat /etc/sottovoce/agent.toml"), "its configuration is as it was")
        before.goes_on_in(Ledger.of(attic), "the ledger")


def spread(devices: tuple[Machine, ...]) -> float:
    """The largest difference of a parameter between the models of two devices."""
    return float(np.ptp([model(machine) for machine in devices], axis=0).max())


def finished(devices: tuple[Machine, ...]) -> None:
    with step("every device spends its budget, once, and all have learnt"):
        for machine in devices:
            eventually(lambda m=machine: status(m)["steps_done"] == STEPS, f"{machine.name} has taken every step")  # type: ignore[misc]
        eventually(lambda: spread(devices) < 1e-3, "the three models are one, to a thousandth in every number")
        for machine in devices:
            ledger, right = Ledger.of(machine), accuracy(machine)
            check(ledger.charges == STEPS and ledger.epsilon <= EPSILON + 1e-9, f"{machine.name}: {ledger}")
            check(right > 0.7, f"{machine.name}: {right:.3f} of days that no device holds are right; chance is 0.333")
            machine.sh(f"sottovoce ledger verify --state {VAULT}")
            failed = machine.sh("journalctl -u 'sottovoce*' | grep -c 'internal error' || true").strip()
            check(failed == "0", f"{machine.name}: no defect in the journal")


def removed(walk: Walk, attic: Machine) -> None:
    with step("attic is looked at, removed, and installed again"):
        looked = walk.run("attic", "ledger show")
        check("spent_epsilon" in looked, "status, ledger and journal can be read")
        before = Ledger.of(attic)
        script = walk.block("attic", "apt-get remove").commands
        attic.sh(script[0])
        check(not attic.sh("grep -lx sottovoce /proc/[0-9]*/comm || true"), "no process is left")
        check(not attic.sh("ls -d /usr/lib/sottovoce /usr/bin/sottovoce 2>/dev/null || true"), "no program is left")
        kept = attic.sh(f"ls -d /etc/sottovoce/agent.toml /var/lib/sottovoce/identity {VAULT}/ledger.db").split()
        check(len(kept) == 3, "configuration, identity and ledger are kept")
        attic.sh(script[1])
        eventually(lambda: running(attic) and status(attic)["id"] == before.owner, "it goes on by itself")
        before.goes_on_in(Ledger.of(attic), "the ledger")


def fed(kitchen: Machine) -> None:
    """Check the feed's unit with a broker that is away, which shows that its sandbox lets it work."""
    with step("the feed runs beside the vault, as its user"):
        kitchen.sh("cat >> /etc/sottovoce/agent.toml", stdin=_FEED)
        kitchen.sh("systemctl start sottovoce-feed")
        eventually(
            lambda: "waiting-for-broker" in kitchen.sh("journalctl --no-pager -u sottovoce-feed"),
            "it looks for its broker",
        )
        made = kitchen.sh("stat -c '%U %a' /var/lib/sottovoce-records/windows.db").strip()
        check(made == "sottovoce-vault 600", "its windows are the vault's alone")
        kitchen.sh("systemctl restart sottovoce-vault")
        check(running(kitchen), "the vault takes the configuration with a feed")


def purged(walk: Walk, kitchen: Machine, attic: Machine, before: set[str]) -> None:
    with step("kitchen is purged, and the ledger stays"):
        output = walk.run("kitchen", "apt-get purge")
        check("the ledger stays" in output and "a second time" in output, "and it says why")
        left = sorted(files(kitchen) - before)
        for path in left:
            print(f"    left: {path}")
        documented = re.compile(rf"{VAULT}(/ledger\.db.*)?|/var/lib/sottovoce-records(/records\.npz|/windows\.db.*)?")
        check(all(documented.fullmatch(path) for path in left), "nothing else is left")
        check(f"{VAULT}/ledger.db" in left, "the ledger is left")
        kitchen.sh("apt-get install -y ./sottovoce_*.deb")
        join = f"sottovoce fleet join --pinned --name other --state /var/lib/sottovoce --vault {VAULT}"
        verdict = kitchen.sh(f"{join} 2>&1 || echo code $?")
        check("already exists" in verdict, f"a new device does not begin a new ledger: {verdict.strip()}")
    with step("attic is purged with its ledger, records and users"):
        walk.run("attic", "SOTTOVOCE_PURGE_LEDGER=yes")
        left = sorted(files(attic) - before)
        check(not left, f"nothing is left {left}")
        check(not attic.sh("getent passwd sottovoce sottovoce-vault || true"), "not even the users")


def alone(machine: Machine) -> None:
    """Make it the only device of a fleet, and start it."""
    config = machine.sh("sed 's/^announce = .*//' /etc/sottovoce/agent.toml").replace("0.0.0.0:7400", "127.0.0.1:7400")
    machine.sh("cat > /etc/sottovoce/agent.toml", stdin=config + "\n[ledger]\nalone = true\n")
    join = f"sottovoce fleet join --fleet alone --state /var/lib/sottovoce --vault {VAULT}"
    machine.sh(f"sottovoce fleet init --name alone --fleet alone && {join} && systemctl start sottovoce-agent")


def network(attic: Machine, package: Path, scratch: Path) -> None:
    """Check ONNX Runtime inside both sandboxes, on a new device that is alone."""
    with step("attic, made anew, learns a network of its own"):
        (scratch / "days.toml").write_text(_NETWORK)
        build = [sys.executable, "-m", "sottovoce", "model", "build", "days.toml"]
        subprocess.run(build, cwd=scratch, check=True, stdout=subprocess.DEVNULL)
        graph = scratch / "days.onnx"
        for source in (package, graph, scratch / "records.npz"):
            attic.put(source, source.name)
        attic.sh("rm -f sottovoce_*+upgraded* && apt-get install -y ./sottovoce_*.deb && cp days.onnx /etc/sottovoce/")
        attic.sh("install -o sottovoce-vault -m 600 records.npz /var/lib/sottovoce-records/")
        digest = hashlib.sha256(graph.read_bytes()).hexdigest()
        attic.sh("sed -i 's/^# period = 10.0/period = 2.0/' /etc/sottovoce/agent.toml")
        config = attic.sh("cat /etc/sottovoce/agent.toml").replace("[data]", '[data]\ntransform = "standard"')
        config = config.replace("[learner]", '[learner]\nmodel = "/etc/sottovoce/days.onnx"')
        config = config.replace("[vault]", f'[vault]\ngraphs = ["sha256:{digest}"]')
        attic.sh("cat > /etc/sottovoce/agent.toml", stdin=config)
        alone(attic)
        eventually(lambda: status(attic)["steps_done"] >= 3, "it has taken private steps")
        for unit in UNITS:
            holds = attic.sh(f"awk '/^VmRSS/ {{ print $2 }}' /proc/{property_of(attic, unit, 'MainPID')}/status")
            check(running(attic), f"{unit} holds {int(holds) / 1024:.0f} MiB")
        blind = attic.sh("journalctl -u sottovoce-vault | grep cpuinfo || true").strip()
        check(not blind, "the runtime sees what the processor can do")


def debian_upgraded(packages: dict[str, Path]) -> None:
    """Upgrade a working device from one Debian release to the next, by the command of the page."""
    (old, new), series = packages, RELEASES[list(packages)[1]]
    with (
        step(f"a device is upgraded from {old} to {new}"),
        tempfile.TemporaryDirectory() as directory,
        machines("hub", release=old) as (hub,),
    ):
        features, labels = days(400, 1)
        np.savez(Path(directory) / "records.npz", X=features, y=labels, classes=3)
        for source in (*packages.values(), Path(directory) / "records.npz"):
            hub.put(source, source.name)
        hub.sh(f"apt-get update && apt-get install -y ./{packages[old].name}")
        hub.sh("install -o sottovoce-vault -m 600 records.npz /var/lib/sottovoce-records/")
        alone(hub)
        eventually(lambda: status(hub)["steps_done"] >= 1, "it has taken private steps")
        before = Ledger.of(hub)
        hub.sh(f"find /etc/apt -name '*.list' -o -name '*.sources' | xargs sed -i 's/{old}/{new}/' && apt-get update")
        hub.sh(f"export DEBIAN_FRONTEND=noninteractive; {debian_upgrade()}")
        installed = hub.sh("dpkg-query -W -f '${Version}' sottovoce")
        check(installed == version(packages[new]), f"version {installed}")
        compiled(hub, series)
        at_work(hub, before, "both run again")


def ordered(packages: dict[str, Path]) -> None:
    """Check that a newer Debian's package has the higher version; else upgrading Debian would not upgrade it."""
    versions = [version(package) for package in packages.values()]
    for older, later in pairwise(versions):
        check(newer(later, than=older), f"{later} upgrades {older}")


def walked(package: Path, release: str) -> None:
    """Walk through the whole page, on one release."""
    series = RELEASES[release]
    print(f"==> {release}: {package.name}, {package.stat().st_size / 2**20:.1f} MiB", flush=True)
    with (
        tempfile.TemporaryDirectory() as directory,
        machines("hub", "kitchen", "attic", release=release) as (hub, kitchen, attic),
    ):
        scratch, devices = Path(directory), (hub, kitchen, attic)
        for seed, machine in enumerate(devices, start=1):
            features, labels = days(400, seed)
            np.savez(scratch / "records.npz", X=features, y=labels, classes=3)
            machine.put(scratch / "records.npz", "records.npz")
            machine.put(package, package.name)
        before = files(kitchen)
        walk = Walk({machine.name: machine for machine in devices})
        install(walk, hub, kitchen, attic, series, scratch)
        confined(kitchen)
        learning(devices)
        killed(kitchen, "sottovoce-agent")
        killed(attic, "sottovoce-vault")
        for unit in UNITS:
            hung(kitchen, unit)
        switched_off(kitchen)
        upgraded(attic, higher(package, scratch), series)
        finished(devices)
        removed(walk, attic)
        fed(kitchen)
        purged(walk, kitchen, attic, before)
        network(attic, package, scratch)
        walk.done()


def main(releases: list[str]) -> None:
    """Build the packages for these releases of Debian, and walk with each."""
    with one_line("deb-test"):
        packages = {release: build(release) for release in releases}
        ordered(packages)
        for release, package in packages.items():
            walked(package, release)
        if len(packages) > 1:
            debian_upgraded(packages)
    print(f"deb-test: everything passed on {' and '.join(releases)}")


if __name__ == "__main__":
    main(sys.argv[1:])
