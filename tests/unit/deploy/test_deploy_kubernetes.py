"""Files in deploy/kubernetes, checked without a cluster: they fit together, and the start script works."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from sottovoce.config import load
from sottovoce.fleet import load as load_identity
from sottovoce.fleet.invitation import Seeds
from sottovoce_operator.fleet import Fleet, create_fleet
from sottovoce_operator.fleet.bundles import new_bundle, write_bundle

PROJECT = Path(__file__).resolve().parents[3]
PAGE = PROJECT / "docs/how-to/kubernetes.md"
KUBERNETES = PROJECT / "deploy/kubernetes"
BASE, SITE = KUBERNETES / "base", KUBERNETES / "overlays/site"
LABELS = {"app.kubernetes.io/name": "sottovoce"}


def manifest(path: Path) -> dict[str, Any]:
    (document,) = yaml.safe_load_all(path.read_text())
    return dict(document)


@pytest.fixture(scope="module")
def objects() -> dict[str, dict[str, Any]]:
    """Return objects by kind, with the base's resource names."""
    results = [manifest(BASE / name) for name in manifest(BASE / "kustomization.yaml")["resources"]]
    return {document["kind"]: document for document in results}


@pytest.fixture(scope="module")
def pod(objects: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return dict(objects["StatefulSet"]["spec"]["template"]["spec"])


@pytest.mark.parametrize("directory", [BASE, SITE], ids=["base", "site"])
def test_every_referenced_object_exists_and_no_other(directory: Path) -> None:
    kustomization = manifest(directory / "kustomization.yaml")
    files = [name for generator in kustomization["configMapGenerator"] for name in generator["files"]]
    named = [*kustomization["resources"], *files]
    assert all((directory / name).exists() for name in named)
    assert {path.name for path in directory.iterdir()} == {name for name in named if "/" not in name} | {
        "kustomization.yaml"
    }


def test_the_base_has_one_object_of_each_kind(objects: dict[str, dict[str, Any]]) -> None:
    assert set(objects) == {"NetworkPolicy", "PodDisruptionBudget", "Service", "StatefulSet"}
    for document in objects.values():
        assert document["metadata"] == {"name": "sottovoce", "labels": LABELS}


def test_all_objects_select_the_same_pods(objects: dict[str, dict[str, Any]]) -> None:
    stateful = objects["StatefulSet"]["spec"]
    assert stateful["template"]["metadata"]["labels"] == stateful["selector"]["matchLabels"] == LABELS
    assert objects["Service"]["spec"]["selector"] == LABELS
    assert objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == LABELS
    assert objects["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == LABELS


def test_pods_have_stable_names(objects: dict[str, dict[str, Any]]) -> None:
    service = objects["Service"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert objects["StatefulSet"]["spec"]["serviceName"] == service["metadata"]["name"]
    retention = objects["StatefulSet"]["spec"]["persistentVolumeClaimRetentionPolicy"]
    assert retention == {"whenDeleted": "Retain", "whenScaled": "Retain"}


def test_pods_comply_with_the_restricted_standard(pod: dict[str, Any]) -> None:
    assert pod["automountServiceAccountToken"] is False
    full = pod["securityContext"]
    assert full["runAsNonRoot"] is True
    assert full["seccompProfile"] == {"type": "RuntimeDefault"}
    assert full["runAsUser"] == 10001
    for container in (*pod["initContainers"], *pod["containers"]):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert set(container["resources"]) == {"requests", "limits"}
        assert set(container["resources"]["limits"]) == {"cpu", "memory"}
    assert manifest(SITE / "namespace.yaml")["metadata"]["labels"] == {
        "pod-security.kubernetes.io/enforce": "restricted"
    }


def test_mounts_are_declared_and_other_devices_keys_are_out_of_the_agent_s_reach(
    objects: dict[str, dict[str, Any]], pod: dict[str, Any]
) -> None:
    claims = [claim["metadata"]["name"] for claim in objects["StatefulSet"]["spec"]["volumeClaimTemplates"]]
    declared = {volume["name"] for volume in pod["volumes"]} | set(claims)
    (join,), (agent,) = pod["initContainers"], pod["containers"]
    mounts = [{mount["name"]: mount["mountPath"] for mount in each["volumeMounts"]} for each in (join, agent)]
    assert set(mounts[0]) | set(mounts[1]) == declared
    assert "bundles" in mounts[0]
    assert "bundles" not in mounts[1]
    for name in set(mounts[0]) & set(mounts[1]):
        assert mounts[0][name] == mounts[1][name]


def test_probes_policy_and_service_use_the_agent_s_ports(
    objects: dict[str, dict[str, Any]], pod: dict[str, Any], tmp_path: Path
) -> None:
    (agent,) = pod["containers"]
    ports = {port["name"]: port["containerPort"] for port in agent["ports"]}
    config = load(BASE / "agent.toml")
    assert config.transport.listen == f"0.0.0.0:{ports['peers']}"
    assert config.observe.metrics == f"0.0.0.0:{ports['observe']}"
    assert {agent[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness")} == {"/livez"}
    assert agent["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "observe"}
    assert objects["Service"]["spec"]["ports"][0]["targetPort"] == "peers"
    inward = objects["NetworkPolicy"]["spec"]["ingress"]
    assert [rule["ports"][0]["port"] for rule in inward] == [ports["peers"], ports["observe"]]
    assert inward[0]["from"] == [{"podSelector": {"matchLabels": LABELS}}]


def test_a_site_may_replace_the_configuration_which_contains_no_secret() -> None:
    assert load(SITE / "agent.toml").data.features == 48
    (generator,) = manifest(SITE / "kustomization.yaml")["configMapGenerator"]
    assert generator["behavior"] == "merge"


def test_the_page_s_cluster_commands_are_run() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert "\nkubernetes-test: " in (PROJECT / "Makefile").read_text()
    blocks = re.findall(r"(<!-- [^\n]*-->\n)?```(\w+)\n(.*?)```\n", text, re.DOTALL)
    assert {language for _, language, _ in blocks} == {"sh"}, "deploy/kubernetes/test reads blocks of this language"
    mark = "<!-- not run: needs a cluster; `make kubernetes-test` runs it -->\n"
    assert {before for before, _, script in blocks if "kubectl" in script} == {mark}
    assert {before for before, _, script in blocks if "kubectl" not in script} == {""}


def test_every_pod_has_a_bundle_and_a_valid_seed(objects: dict[str, dict[str, Any]]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    site, name = manifest(SITE / "kustomization.yaml"), objects["StatefulSet"]["metadata"]["name"]
    (later,) = re.findall(r"^for pod in ([\d ]+); do$", text, re.MULTILINE)
    assert len(later.split()) + 1 == site["replicas"][0]["count"]
    service = objects["Service"]["metadata"]["name"]
    assert f"$first@{name}-0.{service}.{site['namespace']}.svc.cluster.local:7400" in text


def run_start_script(pod: dict[str, Any], root: Path, ordinal: int) -> subprocess.CompletedProcess[str]:
    """Run a pod's start script, with its directories below `root`."""
    script = (BASE / "start.sh").read_text()
    script = re.sub(r'(?<=[ ="])/(?=(var/lib/sottovoce|bundles|config|run/sottovoce|tmp)/)', f"{root}/", script)
    variables = {entry["name"]: entry.get("value", "") for entry in pod["initContainers"][0]["env"]}
    assert variables["POD"] == "$(NAME).sottovoce.$(NAMESPACE).svc.cluster.local"
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "EPSILON": variables["EPSILON"],
        "DELTA": variables["DELTA"],
        "POD": f"sottovoce-{ordinal}.sottovoce.here.svc.cluster.local",
    }
    return subprocess.run(["sh", "-c", script], env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return create_fleet(tmp_path / "fleet", "cluster")


@pytest.mark.process
def test_a_pod_joins_with_its_own_bundle_and_keeps_its_identity(
    pod: dict[str, Any], fleet: Fleet, tmp_path: Path
) -> None:
    for directory in ("var/lib/sottovoce", "bundles", "config", "run/sottovoce", "tmp"):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "config/agent.toml").write_text((BASE / "agent.toml").read_text())
    bundles = [new_bundle(fleet, Seeds()) for _ in range(2)]
    for ordinal, bundle in enumerate(bundles):
        write_bundle(tmp_path / f"bundles/sottovoce-{ordinal}", bundle)
    state = tmp_path / "var/lib/sottovoce/device"
    for _ in range(2):  # the second start finds the state and needs no bundle
        completed = run_start_script(pod, tmp_path, 1)
        assert completed.returncode == 0, completed.stderr
        assert load_identity(state / "identity").node_id == bundles[1].id
        (tmp_path / "bundles/sottovoce-1").unlink(missing_ok=True)
    assert load(tmp_path / "run/sottovoce/agent.toml").transport.announce == (
        "sottovoce-1.sottovoce.here.svc.cluster.local:7400"
    )
    assert not list((tmp_path / "tmp").iterdir()), "no copy of the keys stays behind"


@pytest.mark.process
def test_a_pod_without_a_bundle_does_not_start(pod: dict[str, Any], tmp_path: Path) -> None:
    for directory in ("var/lib/sottovoce", "bundles", "config", "run/sottovoce", "tmp"):
        (tmp_path / directory).mkdir(parents=True)
    completed = run_start_script(pod, tmp_path, 0)
    assert completed.returncode != 0
    assert "sottovoce-0" in completed.stderr
