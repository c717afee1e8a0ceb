"""Public model of an agent that is not running, read from its last commit without changing anything."""

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from sottovoce.algorithms.assembly import build_family
from sottovoce.config import AgentConfig
from sottovoce.errors import DataError
from sottovoce.fleet import load
from sottovoce.learning.learners import Effect, Learner, PublishModel, SetTimer, Timer
from sottovoce.node.assemble import IDENTITY
from sottovoce.node.provenance import FleetProvenance
from sottovoce.node.record_book import NAME, read
from sottovoce.node.sqlite_store import SCHEMA
from sottovoce.storage.durable import sqlite_code

STATE = "state.db"
_NOT_OPENED = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM)


def load_saved_model(config: AgentConfig) -> tuple[NDArray[np.float64] | None, int]:
    """Return the model that the agent would publish if it started now, float64[P] or None, and the model's cycle.

    Args:
        config: configuration of the agent.

    Raises:
        SottovoceError: if the state is missing or corrupt, or belongs to another configuration.
    """
    state = config.agent.state
    identity, family = load(state / IDENTITY), build_family(config)
    records = read(state / NAME) if family.keeps_records and (state / NAME).is_file() else ()
    learner, codec = family.learner(identity.node_id, FleetProvenance(identity), records)
    path = state / STATE
    try:
        saved = codec.decode(_read_saved_state(path))
    except sqlite3.OperationalError as error:
        if sqlite_code(error) not in _NOT_OPENED:
            raise _mismatch_error(path, error) from error
        raise DataError(
            f"cannot read {path} ({error}); run this command as the agent's user, and make sure that the disk is "
            "writable and has free space"
        ) from error
    except (sqlite3.DatabaseError, DecodeError, ValueError, TypeError) as error:
        raise _mismatch_error(path, error) from error
    published = _published_model(learner, learner.restore(saved, frozenset()))
    return (None, saved.cycle) if published is None else (published.parameters, published.cycle)


def _mismatch_error(path: Path, error: Exception) -> DataError:
    return DataError(f"cannot read {path} ({error}); specify this agent's own configuration and state directory")


def _published_model(learner: Learner[Any], state: Any) -> PublishModel | None:
    """Return the model published after a start or after the first timer; the learner's effects are not carried out."""
    state, effects = learner.start(state, 0.0)
    if (published := _find_model(effects)) is not None:
        return published
    timers = [effect.name for effect in effects if isinstance(effect, SetTimer)]
    return _find_model(learner.on(state, Timer(timers[0]), 0.0)[1]) if timers else None


def _find_model(effects: list[Effect]) -> PublishModel | None:
    return next((effect for effect in effects if isinstance(effect, PublishModel)), None)


def _read_saved_state(path: Path) -> bytes:
    if not path.is_file():
        raise DataError(f"{path}: this device does not have a model yet; start its agent with `sottovoce agent run`")
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=10)
    try:
        SCHEMA.version(connection, path)
        row = connection.execute("SELECT state FROM learner").fetchone()
    finally:
        connection.close()
    if row is None or not isinstance(row[0], bytes):
        raise ValueError("no learner state is stored")
    return row[0]
