"""Files of deploy/compose and deploy/container: limits, confinement, and names that exist."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from sottovoce_lab.testbed.containers import __main__ as parts
from sottovoce_lab.testbed.containers.prepare import BROKER, BROKER_HOME, BROKER_PORT, METRICS_PORT
from sottovoce_lab.testbed.containers.settings import ContainerSettings

ROOT = Path(__file__).resolve().parents[3]
COMPOSE = ROOT / "deploy/compose"
OURS = ("fleet", "broker", "agent", "faulty-agent", "results")


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    text = (COMPOSE / "compose.yaml").read_text()
    return dict(yaml.safe_load(re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text))["services"])


@pytest.fixture(scope="module")
def containerfile() -> str:
    return (ROOT / "deploy/container/Containerfile").read_text()


def defaults() -> dict[str, str]:
    lines = (COMPOSE / ".env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


@pytest.mark.parametrize("name", [*OURS, "prometheus", "grafana"])
def test_no_service_may_do_more_than_it_must(services: dict[str, Any], name: str) -> None:
    service = services[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges"]
    if name in OURS:
        assert service["user"] == "10001:10001"
        assert 0 < int(service["mem_limit"].removesuffix("m")) <= 512


@pytest.mark.parametrize("name", ["agent", "faulty-agent"])
def test_a_device_has_less_than_a_pi_zero_2_and_a_health_check(services: dict[str, Any], name: str) -> None:
    device = services[name]
    assert int(device["mem_limit"].removesuffix("m")) <= 512
    assert device["cpus"] <= 1
    assert device["healthcheck"]["test"][:4] == ["CMD", "sottovoce", "agent", "status"]
    assert device["command"] == ["device"]
    assert device["volumes"] == [f"places:{parts.ROOT}"], "the fleet's key is in another one"


def test_only_the_fleet_sees_its_key_and_only_agents_and_broker_a_network(services: dict[str, Any]) -> None:
    holders = [
        name for name, service in services.items() if f"authority:{parts.AUTHORITY}" in service.get("volumes", [])
    ]
    assert holders == ["fleet"]
    assert services["fleet"]["network_mode"] == services["results"]["network_mode"] == "none"


def test_the_broker_finds_what_was_made_for_it(services: dict[str, Any]) -> None:
    assert BROKER in services
    assert f"broker:{parts.BROKER}" in services["fleet"]["volumes"]
    assert services[BROKER]["volumes"] == [f"broker:{BROKER_HOME.parent}:ro"]
    assert str(BROKER_PORT) in services["packet-loss"]["command"]


def test_what_the_environment_may_say_is_what_is_read(services: dict[str, Any]) -> None:
    fleet, said = services["fleet"]["environment"], defaults()
    assert services["results"]["environment"] == fleet
    asked = ContainerSettings.read({name: str(value) for name, value in fleet.items()})
    assert asked == ContainerSettings.read({}), "compose.yaml repeats the defaults"
    assert ContainerSettings.read(said) == asked
    assert int(said["CLEAN"]) + int(said["FAULTY"]) == asked.options.agents
    assert (services["agent"]["scale"], services["faulty-agent"]["scale"]) == (int(said["CLEAN"]), int(said["FAULTY"]))
    assert services["faulty-agent"]["environment"]["SOTTOVOCE_FAULTS"] == said["FAULTS"]
    assert services["agent"]["mem_limit"] == said["MEMORY"]


def test_stages_that_are_built_exist_and_so_does_what_is_mounted(services: dict[str, Any], containerfile: str) -> None:
    stages = set(re.findall(r"^FROM \S+ AS (\S+)$", containerfile, re.MULTILINE))
    for service in services.values():
        if "build" in service:
            assert service["build"]["target"] in stages
            assert (COMPOSE / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert not source.startswith(".") or (COMPOSE / source).exists()


def test_prometheus_asks_the_devices_under_the_name_that_the_rules_know(services: dict[str, Any]) -> None:
    (job,) = yaml.safe_load((COMPOSE / "prometheus.yml").read_text())["scrape_configs"]
    assert job["job_name"] == "sottovoce"
    (found,) = job["dns_sd_configs"]
    assert found["port"] == METRICS_PORT
    assert set(found["names"]) == {"agent", "faulty-agent"} <= set(services)


def test_the_image_is_made_from_locks_alone(containerfile: str) -> None:
    """Every package that is named is locked, with all that it needs, or the build would stop."""
    locked = set(re.findall(r"^([a-z0-9-]+)==", (ROOT / "locks/dev.txt").read_text(), re.MULTILINE))
    named = re.findall(r"pinned locks/dev\.txt ([a-z0-9 -]+) >", containerfile)
    named += re.findall(r'^ARG PACKAGES="(.*)"$', containerfile, re.MULTILINE)
    assert len(named) == 3
    assert {name for names in named for name in names.split()} <= locked
    for install in re.findall(r"pip\S* .*install.*", containerfile):
        assert "--require-hashes" in install or "--no-index" in install


def test_the_image_runs_as_nobody_in_particular(containerfile: str) -> None:
    stages = {text.split("\n")[0].split(" AS ")[1]: text for text in containerfile.split("\nFROM ")[1:]}
    assert "USER 10001:10001" in stages["runtime"]
    assert "USER" not in stages["device"]
    assert stages["testbed"].rindex("USER 10001:10001") > stages["testbed"].rindex("USER root")
    assert "HEALTHCHECK" in stages["device"]
    assert "VOLUME" not in containerfile, "or every container would leave a volume without a name behind"
    assert not re.search(r"amd64|x86_64|aarch64", containerfile.split("ARG BASE")[1])


def test_packages_are_taken_from_a_lock_whole_or_not_at_all(tmp_path: Path) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text("# by hand\none==1 \\\n    --hash=sha256:aa\n    # via two\none-more==1 --hash=sha256:bb\ntwo==2\n")
    command = [str(ROOT / "deploy/container/pinned"), str(lock)]
    found = subprocess.run([*command, "one", "two"], capture_output=True, text=True, check=True).stdout
    assert [line for line in found.splitlines() if "#" not in line] == ["one==1 \\", "    --hash=sha256:aa", "two==2"]
    missing = subprocess.run([*command, "one", "three"], capture_output=True, text=True, check=False)
    assert missing.returncode == 1
    assert "has no three" in missing.stderr


def test_the_engine_is_given_what_is_copied_and_nothing_else(containerfile: str) -> None:
    copied = [words.split()[:-1] for words in re.findall(r"^COPY (?!--from)(.*)$", containerfile, re.MULTILINE)]
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert lines[1] == "*"
    assert {line[1:] for line in lines if line.startswith("!")} == {name for names in copied for name in names}
