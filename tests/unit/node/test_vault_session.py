"""Vault session: a device whose current task prevents its start loads the next task from its disk."""

import time
from pathlib import Path
from typing import Any

import pytest
from sottovoce.algorithms.family import required_budget
from sottovoce.config import config_from_tables
from sottovoce.errors import SottovoceError
from sottovoce.fleet import Trust
from sottovoce.fleet.signed_task import SignedTask, store_task
from sottovoce.node.vault_session import open_local_vault
from sottovoce.privacy.vault import Budget, Ledger, Mandate
from sottovoce_operator.fleet import create_fleet
from sottovoce_operator.fleet.join import join

DATA = {"features": 64, "classes": 10, "expected_records": 180.0}


def test_an_impossible_task_gives_way_to_the_next(tmp_path: Path) -> None:
    fleet = create_fleet(tmp_path / "fleet", "street")
    config = config_from_tables({"agent": {"state": str(tmp_path / "a")}, "data": {"source": "digits", **DATA}}, "test")
    identity = join(fleet, tmp_path / "a", required_budget(config))

    def task(epoch: int, features: int) -> SignedTask:
        tables: dict[str, dict[str, Any]] = {"data": {**DATA, "features": features}, "learner": {"name": "clipd2p"}}
        return SignedTask(fleet="street", epoch=epoch, issued=0, tables=tables).sign(fleet.sign)

    ledger = Ledger.open(tmp_path / "a" / "ledger.db", identity.node_id, required_budget(config))
    ledger.take_up(Mandate(1, Budget(1.0, 1e-5, "record", "add-remove"), task(1, 65).encoding))
    ledger.close()
    with pytest.raises(SottovoceError):
        open_local_vault(config, Trust(identity), time.time)
    store_task(tmp_path / "a", task(2, 64), fleet.authority)
    opened = open_local_vault(config, Trust(identity), time.time)
    assert opened.epoch == 2
    opened.vault.close()
