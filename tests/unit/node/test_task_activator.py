"""Checks by the vault process before it accepts a fleet task: any process may be the caller."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs
from sottovoce.algorithms.assembly import build_family
from sottovoce.algorithms.family import required_budget
from sottovoce.config import AgentConfig, config_from_tables
from sottovoce.errors import SottovoceError, TaskRefused
from sottovoce.fleet.consent import save_consent
from sottovoce.fleet.signed_task import SignedTask, read_task
from sottovoce.node.local_vault import make_vault
from sottovoce.node.task_activator import TaskActivator, active_configuration, make_closed_reason
from sottovoce.privacy.api import Query, Refused
from sottovoce.privacy.vault import Ledger
from sottovoce_operator.fleet import Fleet, create_fleet

from tests.support.waiting import until

NOW = 1_800_000_000.0
DATA = {"features": 64, "classes": 10, "expected_records": 180.0}
TABLES: dict[str, dict[str, Any]] = {
    "task": {"name": "digits"},
    "data": DATA,
    "learner": {"name": "clipd2p", "steps": 3, "centre": "none"},
    "privacy": {"epsilon": 0.5},
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return create_fleet(tmp_path_factory.mktemp("fleet") / "authority", "street")


def query(slot: int = 0) -> Query:
    return Query("clipd2p", "gradient", slot, np.zeros(650))


class Bench:
    """A device, and what its fleet may request from it."""

    def __init__(self, fleet: Fleet, directory: Path, policy: str | None = None) -> None:
        self.fleet, self.directory, self.now = fleet, directory, NOW
        vault: dict[str, Any] = {"tasks": "signed"}
        if policy is not None:
            (directory / "policy.toml").write_text(policy)
            vault["policy"] = str(directory / "policy.toml")
        self.config = make_config(directory, vault)
        self.ledger = Ledger.in_memory("meter-17", required_budget(self.config))

    def sign_task(self, epoch: int = 1, tables: dict[str, dict[str, Any]] = TABLES, **overrides: Any) -> SignedTask:
        inputs = {"fleet": "street", "epoch": epoch, "issued": 0, "tables": tables, **overrides}
        return SignedTask(**inputs).sign(self.fleet.sign)

    def activate(self, task: SignedTask) -> None:
        authority = self.fleet.authority
        TaskActivator(self.config, self.ledger, self.directory, lambda: authority, lambda: self.now)(task.encoding)

    def vault(self) -> Any:
        config = active_configuration(self.config, self.ledger)
        closed = make_closed_reason(
            config.vault,
            self.ledger,
            self.directory,
            lambda: self.now,
            algorithm=config.learner.name,
            cell=config.cell,
        )
        return make_vault(config, build_family(config), self.ledger, closing_reason=closed)


def make_config(directory: Path, vault: dict[str, Any]) -> AgentConfig:
    return config_from_tables(
        {"agent": {"state": str(directory)}, "data": {"source": "digits", **DATA}, "vault": vault}, "test"
    )


@pytest.fixture
def bench(fleet: Fleet, tmp_path: Path) -> Bench:
    return Bench(fleet, tmp_path)


def test_a_task_is_activated_with_its_own_budget(bench: Bench) -> None:
    assert bench.vault().answer(query()).reason == "task", "nothing is released before that"
    bench.activate(bench.sign_task())
    assert bench.ledger.budget.epsilon == 0.5
    assert active_configuration(bench.config, bench.ledger).learner.name == "clipd2p"
    assert not isinstance(bench.vault().answer(query()), Refused)


def test_another_key_another_fleet_and_an_altered_document_are_refused(bench: Bench, tmp_path: Path) -> None:
    stranger = create_fleet(tmp_path / "other", "street")
    forged = structs.replace(bench.sign_task(), signature="").sign(stranger.sign)
    altered = structs.replace(bench.sign_task(), tables={**TABLES, "privacy": {"epsilon": 2.0}})
    for task, words in (
        (forged, r"signed.*fleet"),
        (altered, r"signed.*fleet"),
        (bench.sign_task(fleet="road"), "fleet 'road'"),
    ):
        with pytest.raises(TaskRefused, match=words):
            bench.activate(task)
    assert bench.ledger.mandate is None


@pytest.mark.parametrize("epoch", [1, 2])
def test_an_older_or_equal_epoch_is_refused(bench: Bench, epoch: int) -> None:
    bench.activate(bench.sign_task(2))
    with pytest.raises(TaskRefused, match=rf"epoch {epoch} .*epoch 2"):
        bench.activate(bench.sign_task(epoch))


def test_a_task_is_valid_only_between_its_dates(bench: Bench) -> None:
    with pytest.raises(TaskRefused, match="begun"):
        bench.activate(bench.sign_task(begins=int(NOW) + 3600))
    with pytest.raises(TaskRefused, match="ended"):
        bench.activate(bench.sign_task(ends=int(NOW)))
    bench.activate(bench.sign_task(begins=int(NOW) - 10, ends=int(NOW) + 10))
    vault = bench.vault()
    assert not isinstance(vault.answer(query()), Refused)
    bench.now += 20
    assert vault.answer(query(1)).explanation == "the task of epoch 1 has ended"
    bench.now -= 20
    assert not isinstance(vault.answer(query(1)), Refused), "a clock that was ahead has blocked nothing"


@pytest.mark.parametrize(
    "policy, words",
    [
        (
            'approve = "auto"\nalgorithms = ["average"]',
            r"algorithms: average.*clipd2p",
        ),
        ('approve = "auto"\nunits = ["device"]', r"units: device.*record"),
        (
            'approve = "auto"\npurposes = ["research"]',
            "purposes: research",
        ),
        ('approve = "auto"\npurposes = []', "purposes: none"),
        ('approve = "ask"', "sottovoce agent task approve 1"),
        ('aprove = "ask"', "`aprove`"),
        ("", "`approve`"),
        ('approve = "auto"\nepsilon = 0', "`float` > 0"),
        ("approve = ", "Invalid value"),
    ],
)
def test_the_owner_s_policy_is_enforced(fleet: Fleet, tmp_path: Path, policy: str, words: str) -> None:
    bench = Bench(fleet, tmp_path, policy)
    with pytest.raises(TaskRefused, match=words):
        bench.activate(bench.sign_task())
    assert bench.ledger.mandate is None


def test_the_policy_may_allow_less_than_the_task_requests(fleet: Fleet, tmp_path: Path) -> None:
    bench = Bench(fleet, tmp_path, 'approve = "auto"\nepsilon = 0.125')
    bench.activate(bench.sign_task())
    assert bench.ledger.budget.epsilon == 0.125
    assert active_configuration(bench.config, bench.ledger).privacy.epsilon == 0.125


def test_a_stricter_policy_ends_the_task(fleet: Fleet, tmp_path: Path) -> None:
    bench = Bench(fleet, tmp_path, 'approve = "auto"\nalgorithms = ["clipd2p"]')
    bench.activate(bench.sign_task())
    (tmp_path / "policy.toml").write_text('approve = "auto"\nalgorithms = ["golf"]')
    assert "algorithms: golf" in bench.vault().answer(query()).explanation


def test_consent_applies_to_one_document(fleet: Fleet, tmp_path: Path) -> None:
    bench = Bench(fleet, tmp_path, 'approve = "ask"')
    task, other = bench.sign_task(), bench.sign_task(purpose="another")
    save_consent(tmp_path, other, "approved")
    with pytest.raises(TaskRefused, match="approval"):
        bench.activate(task)
    save_consent(tmp_path, task, "refused")
    with pytest.raises(TaskRefused, match=r"owner.*refused"):
        bench.activate(task)
    save_consent(tmp_path, task, "approved")
    bench.activate(task)
    vault = bench.vault()
    save_consent(tmp_path, task, "withdrawn")
    save_consent(tmp_path, bench.sign_task(2), "refused")
    assert "has refused, or withdrawn from," in vault.answer(query()).explanation, (
        "refusing the next task does not approve this one"
    )
    with pytest.raises(TaskRefused, match="withdrawal"):
        save_consent(tmp_path, task, "approved")


def test_activation_does_not_depend_on_any_record(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """All devices see whether a task is active, so nothing is read before."""
    monkeypatch.setattr(
        "sottovoce.node.local_vault.load_configured_records", lambda *data: pytest.fail("the records were read")
    )
    bench.activate(bench.sign_task())


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"data": {**DATA, "features": 65}}, r"data\.features.*\b65\b.*\b64\b"),
        ({"data": {**DATA, "classes": 9}}, r"data\.classes.*\b9\b.*\b10\b"),
        pytest.param({"learner": {"name": "golf"}}, "--neighbouring replace-one", marks=pytest.mark.papers),
        ({"learner": {"name": ["x"]}}, "learner.name"),
        ({"privacy": {"epsilon": "0.5"}}, r"privacy\.epsilon.*number"),
        ({"learner": {"name": "clipd2p", "a": {"b": {"c": {"d": {"e": [1]}}}}}}, "nested"),
        ({"data": {**DATA, "source": "npz:/etc/shadow"}}, r"data\.source"),
        ({"data": {**DATA, "public": "digits"}}, r"data\.public"),
        ({"data": {**DATA, "ranges": "training"}}, r"data\.ranges"),
        ({"privacy": {"allow_unproved": True}}, r"privacy\.allow_unproved"),
        ({"privacy": {"delta": 0.5}}, r"privacy\.delta"),
        ({"privacy": {"epsilon_per": "round"}}, r"privacy\.epsilon_per"),
        ({"learner": {"name": "clipd2p", "threads": 2}}, r"learner\.threads"),
        ({"learner": {"name": "clipd2p", "model": "/etc/x.onnx"}}, "directory"),
        ({"learner": {"name": "clipd2p", "model": "x.onnx"}}, "vault.graph_directory: missing"),
        ({"learner": {"name": "no-such"}}, "unknown learner"),
        ({"vault": {"tasks": "any"}}, "tables"),
        ({"agent": {"state": "/"}}, "tables"),
        ({"privacy": {"unit": "window"}}, "windows"),
        ({"learner": {"name": "clipd2p", "steps": 10**6}, "privacy": {"epsilon": 1e-9}}, "."),
    ],
)
def test_an_impossible_task_changes_nothing(bench: Bench, changes: dict[str, Any], words: str) -> None:
    with pytest.raises((SottovoceError, ValueError), match=words):
        bench.activate(bench.sign_task(tables={**TABLES, **changes}))
    assert bench.ledger.mandate is None
    assert bench.ledger.budget == required_budget(bench.config)


@pytest.mark.parametrize("raw", [b"", b"{}", b"[" * 10_000, b"x" * 40_000, b'{"epoch":1}', "é".encode("latin-1")])
def test_an_invalid_document_is_refused(bench: Bench, raw: bytes) -> None:
    authority = bench.fleet.authority
    with pytest.raises(SottovoceError, match=r"not.*task"):
        TaskActivator(bench.config, bench.ledger, bench.directory, lambda: authority)(raw)


RENEWS = 'approve = "auto"\nrenews = "year"\n'
YEARLY: dict[str, dict[str, Any]] = {**TABLES, "privacy": {"epsilon": 2.0, "unit": "device"}}


def spend_budget(vault: Any) -> str:
    """Query the vault until it refuses, and return the reason."""
    for slot in range(100):
        if isinstance(answer := vault.answer(query(slot)), Refused):
            return str(answer.explanation)
    raise AssertionError("its budget has no end")


def yearly(fleet: Fleet, directory: Path) -> Bench:
    bench = Bench(fleet, directory, RENEWS)
    bench.config = config_from_tables(
        {
            "agent": {"state": str(directory)},
            "data": {"source": "digits", **DATA},
            "vault": {"tasks": "signed", "policy": str(directory / "policy.toml")},
            "privacy": {"unit": "device"},
        },
        "test",
    )
    bench.ledger = Ledger.in_memory("meter-17", required_budget(bench.config))
    return bench


def test_no_caller_can_open_a_budget_period(fleet: Fleet, tmp_path: Path) -> None:
    """Neither documents nor the calendar start a budget period."""
    bench = yearly(fleet, tmp_path)
    bench.activate(bench.sign_task(1, YEARLY))
    assert spend_budget(bench.vault()) == "the privacy budget is spent"
    forged = structs.replace(bench.sign_task(2, YEARLY), period=1)
    with pytest.raises(TaskRefused, match=r"signed.*fleet"):
        bench.activate(forged)
    for days in (400, -800, 400):
        bench.now += days * 86_400
        assert spend_budget(bench.vault()) == "the privacy budget is spent"
    bench.activate(bench.sign_task(2, YEARLY, period=1))
    for days in (400, -800, 400):
        bench.now += days * 86_400
        assert (
            spend_budget(bench.vault())
            == "the budget of this period is spent; the next period opens after 365 days of running time"
        )
    assert bench.ledger.spending().epsilon <= 2.0
    uptime = [0.0]
    bench.ledger.periods.allow_renewal("year")
    bench.ledger.start_counting(lambda: uptime[0])
    uptime[0] = 366 * 86_400.0
    bench.ledger.record_running_time()
    assert bench.ledger.periods.number == 1
    assert not isinstance(bench.vault().answer(query(50)), Refused)


@pytest.mark.parametrize("unit", ["record", "window"])
def test_units_with_their_own_budgets_are_not_renewed(fleet: Fleet, tmp_path: Path, unit: str) -> None:
    bench = Bench(fleet, tmp_path, RENEWS)
    bench.ledger = Ledger.in_memory("meter-17", replace(required_budget(bench.config), unit=unit))
    with pytest.raises(SottovoceError, match=f"renews: .*{unit}"):
        bench.vault()


def test_a_first_period_task_is_written_as_before(fleet: Fleet, tmp_path: Path) -> None:
    bench = Bench(fleet, tmp_path)
    assert b"period" not in bench.sign_task().encoding
    later = bench.sign_task(period=3)
    assert read_task(later.encoding, "it") == later
    later.verify(fleet.authority)


def test_a_closed_vault_stops_counting_time(fleet: Fleet, tmp_path: Path) -> None:
    bench = yearly(fleet, tmp_path)
    bench.activate(bench.sign_task(1, YEARLY))
    before, vault = _threads(), bench.vault()
    (counting,) = _threads() - before
    vault.close()
    until(lambda: counting not in _threads(), "the counting thread ends")


def _threads() -> set[str]:
    """Return the system's names of this process's threads."""
    return {path.name for path in Path("/proc/self/task").iterdir()}
