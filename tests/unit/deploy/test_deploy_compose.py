"""Files in deploy/compose and deploy/container: limits, confinement, and names that exist."""

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
def test_no_service_has_unnecessary_rights(services: dict[str, Any], name: str) -> None:
    service = services[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges"]
    if name in OURS:
        assert service["user"] == "10001:10001"
        assert 0 < int(service["mem_limit"].removesuffix("m")) <= 512


@pytest.mark.parametrize("name", ["agent", "faulty-agent"])
def test_a_device_has_less_memory_than_a_pi_zero_2_and_a_health_check(services: dict[str, Any], name: str) -> None:
    device = services[name]
    assert int(device["mem_limit"].removesuffix("m")) <= 512
    assert device["cpus"] <= 1
    assert device["healthcheck"]["test"][:4] == ["CMD", "sottovoce", "agent", "status"]
    assert device["command"] == ["device"]
    assert device["volumes"] == [f"places:{parts.ROOT}"], "the fleet's key is in another volume"


def test_only_the_fleet_service_sees_its_key_and_only_agents_and_broker_have_a_network(
    services: dict[str, Any],
) -> None:
    holders = [
        name for name, service in services.items() if f"authority:{parts.AUTHORITY}" in service.get("volumes", [])
    ]
    assert holders == ["fleet"]
    assert services["fleet"]["network_mode"] == services["results"]["network_mode"] == "none"


def test_the_broker_uses_the_generated_files(services: dict[str, Any]) -> None:
    assert BROKER in services
    assert f"broker:{parts.BROKER}" in services["fleet"]["volumes"]
    assert services[BROKER]["volumes"] == [f"broker:{BROKER_HOME.parent}:ro"]
    assert str(BROKER_PORT) in services["packet-loss"]["command"]


def test_documented_environment_variables_are_the_ones_read(services: dict[str, Any]) -> None:
    fleet, environment = services["fleet"]["environment"], defaults()
    assert services["results"]["environment"] == fleet
    request = ContainerSettings.read({name: str(value) for name, value in fleet.items()})
    assert request == ContainerSettings.read({}), "compose.yaml repeats the defaults"
    assert ContainerSettings.read(environment) == request
    assert int(environment["CLEAN"]) + int(environment["FAULTY"]) == request.options.agents
    assert (services["agent"]["scale"], services["faulty-agent"]["scale"]) == (
        int(environment["CLEAN"]),
        int(environment["FAULTY"]),
    )
    assert services["faulty-agent"]["environment"]["SOTTOVOCE_FAULTS"] == environment["FAULTS"]
    assert services["agent"]["mem_limit"] == environment["MEMORY"]


def test_built_stages_and_mounted_paths_exist(services: dict[str, Any], containerfile: str) -> None:
    stages = set(re.findall(r"^FROM \S+ AS (\S+)$", containerfile, re.MULTILINE))
    for service in services.values():
        if "build" in service:
            assert service["build"]["target"] in stages
            assert (COMPOSE / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert not source.startswith(".") or (COMPOSE / source).exists()


def test_prometheus_scrapes_devices_under_the_rules_job_name(services: dict[str, Any]) -> None:
    (job,) = yaml.safe_load((COMPOSE / "prometheus.yml").read_text())["scrape_configs"]
    assert job["job_name"] == "sottovoce"
    (result,) = job["dns_sd_configs"]
    assert result["port"] == METRICS_PORT
    assert set(result["names"]) == {"agent", "faulty-agent"} <= set(services)


def test_the_image_is_built_only_from_locks(containerfile: str) -> None:
    """Every named package is locked, with all its requirements, or the build would stop."""
    locked = set(re.findall(r"^([a-z0-9-]+)==", (ROOT / "locks/dev.txt").read_text(), re.MULTILINE))
    named = re.findall(r"pinned locks/dev\.txt ([a-z0-9 -]+) >", containerfile)
    named += re.findall(r'^ARG PACKAGES="(.*)"$', containerfile, re.MULTILINE)
    assert len(named) == 3
    assert {name for names in named for name in names.split()} <= locked
    for install in re.findall(r"pip\S* .*install.*", containerfile):
        assert "--require-hashes" in install or "--no-index" in install


def test_the_image_runs_as_an_unprivileged_user(containerfile: str) -> None:
    stages = {text.split("\n")[0].split(" AS ")[1]: text for text in containerfile.split("\nFROM ")[1:]}
    assert "USER 10001:10001" in stages["runtime"]
    assert "USER" not in stages["device"]
    assert stages["testbed"].rindex("USER 10001:10001") > stages["testbed"].rindex("USER root")
    assert "HEALTHCHECK" in stages["device"]
    assert "VOLUME" not in containerfile, "otherwise, every container would leave an unnamed volume"
    assert not re.search(r"amd64|x86_64|aarch64", containerfile.split("ARG BASE")[1])


@pytest.mark.process
def test_packages_are_taken_from_a_lock_completely_or_not_at_all(tmp_path: Path) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text("# by hand\none==1 \\\n    --hash=sha256:aa\n    # via two\none-more==1 --hash=sha256:bb\ntwo==2\n")
    command = [str(ROOT / "deploy/container/pinned"), str(lock)]
    result = subprocess.run([*command, "one", "two"], capture_output=True, text=True, check=True).stdout
    assert [line for line in result.splitlines() if "#" not in line] == ["one==1 \\", "    --hash=sha256:aa", "two==2"]
    missing = subprocess.run([*command, "one", "three"], capture_output=True, text=True, check=False)
    assert missing.returncode == 1
    assert "has no three" in missing.stderr


def test_the_build_context_contains_exactly_the_copied_files(containerfile: str) -> None:
    copied = [words.split()[:-1] for words in re.findall(r"^COPY (?!--from)(.*)$", containerfile, re.MULTILINE)]
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert lines[1] == "*"
    assert {line[1:] for line in lines if line.startswith("!")} == {name for names in copied for name in names}
