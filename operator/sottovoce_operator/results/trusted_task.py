"""The task that a result must belong to, from a document that the verifier trusts.

The members' signatures say that they agree on a result of *some* task. A few liars can sign a task of their own with
smaller cells, so the task itself must be signed by the fleet, or be compared with one that the verifier has.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sottovoce.config import config_from_tables, load
from sottovoce.config.task_config import read_proposed_task
from sottovoce.errors import ConfigError, IdentityError
from sottovoce.fleet.authority import Authority
from sottovoce.fleet.signed_task import read_task
from sottovoce.node.opened_sum import OpenedSum
from sottovoce.node.own_task import build_task
from sottovoce.task import Task

_NO_RANGES = "unknown"
_OF_THE_DEVICE = {"data.bounds", "data.follows"}
"""Settings that follow from a device's own data source."""


def check_signed_task(opened: OpenedSum, raw: bytes, authority: Authority) -> None:
    """Check that a result belongs to a task that the fleet has signed.

    Args:
        opened: the result.
        raw: the signed task.
        authority: the fleet's authority.

    Raises:
        IdentityError: if the fleet did not sign the task, or the result is of another task.
    """
    signed = read_task(raw, "the result's fleet task")
    signed.verify(authority)
    if signed.epoch != opened.epoch:
        raise IdentityError(f"the result is of epoch {opened.epoch}, but contains the task of epoch {signed.epoch}")
    _compare(opened, _task_of(signed.tables, signed.epoch), "the fleet's task")


def check_task_file(opened: OpenedSum, file: Path) -> None:
    """Check that a result belongs to the task in a file.

    Args:
        opened: the result.
        file: the configuration of a device, or the task that `sottovoce fleet task propose` signed.

    Raises:
        ConfigError: if the file cannot be read, or has errors.
        IdentityError: if the result is of another task.
    """
    try:
        is_device = "agent" in tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read as a task or a configuration ({error})") from error
    if is_device:
        return _compare(opened, build_task(load(file), _NO_RANGES), str(file))
    tables, _ = read_proposed_task(file)
    return _compare(opened, _task_of(tables, opened.epoch), str(file))


def _task_of(tables: Mapping[str, Mapping[str, Any]], epoch: int) -> Task:
    device = {
        "agent": {"state": "."},
        "data": {"source": "npz:records.npz", **tables.get("data", {})},
        "task": {**tables.get("task", {}), "epoch": epoch},
    }
    return build_task(config_from_tables({**tables, **device}, "the fleet's task"), _NO_RANGES)


def _compare(opened: OpenedSum, trusted: Task, source: str) -> None:
    own, expected = (
        Task({name: value for name, value in task.settings.items() if name not in _OF_THE_DEVICE})
        for task in (opened.read_task(), trusted)
    )
    if differences := expected.differences(own):
        raise IdentityError(f"the result is of another task than {source}: {'; '.join(differences)}")
