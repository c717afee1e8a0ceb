"""Access to an agent's public model, from the running agent or from the files of a stopped one."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sottovoce.errors import DataError, LedgerError, NetworkError, UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sottovoce.config import AgentConfig
    from sottovoce.node.public_model import Description

ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="The agent's configuration file; required if the agent is not running.")
]


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A public model with its description.

    Attributes:
        description: description of the model.
        parameters: model parameters, float64[P].
        cycle: cycle after which the model was published.
        config: configuration of the agent if it is not running; None if it is running.
    """

    description: "Description"
    parameters: "NDArray[np.float64]"
    cycle: int
    config: "AgentConfig | None"


def load_public_model(state: Path, config: Path | None) -> LoadedModel:
    """Return the current public model of the agent in a state directory.

    Raises:
        SottovoceError: if the agent is not running and no configuration is given, or the agent has no model yet.
    """
    import msgspec

    from sottovoce.node.control import ask, decode_parameters
    from sottovoce.node.public_model import Description

    try:
        reply, model = ask(state, "describe"), ask(state, "model")
    except NetworkError as error:
        if config is None:
            raise UsageError(f"{state}: no agent is running there; start it, or use --config FILE") from error
        return _saved_public_model(state, config)
    try:
        description = msgspec.convert(reply, Description)
    except msgspec.ValidationError as error:
        raise NetworkError(f"{state}: the agent there is running a different version; restart the agent") from error
    return LoadedModel(description, _require_model(decode_parameters(model), state), model["cycle"], None)


def _saved_public_model(state: Path, file: Path) -> LoadedModel:
    from sottovoce.config import load
    from sottovoce.node.public_model import describe_model, load_saved_model

    config = load(file)
    if config.agent.state.resolve() != state.resolve():
        raise UsageError(
            f"--config {file}: agent.state is {config.agent.state}, not {state}: use the same directory in both"
        )
    parameters, cycle = load_saved_model(config)
    return LoadedModel(describe_model(config, _privacy(config)), _require_model(parameters, state), cycle, config)


def _require_model(parameters: "NDArray[np.float64] | None", state: Path) -> "NDArray[np.float64]":
    if parameters is None:
        raise DataError(f"{state}: this device does not have a model yet; let the agent run for a few cycles")
    return parameters


def _privacy(config: "AgentConfig") -> dict[str, Any]:
    """Return a configuration's privacy statement and the ε spent, which is None if the ledger cannot be read."""
    from sottovoce.node.state_directory import state_files
    from sottovoce.privacy.vault import Ledger
    from sottovoce.reports.explain import build_explanation

    statement: dict[str, Any] = build_explanation(config, None)["statement"]
    _, default_path = state_files(config.agent.state)
    path = default_path if config.vault.directory is None else config.vault.directory / default_path.name
    try:
        ledger = Ledger.read(path)
    except (LedgerError, OSError):
        return {**statement, "spent_epsilon": None}
    try:
        spending = ledger.spending()
    finally:
        ledger.close()
    return {
        **statement,
        "spent_epsilon": spending.promised_epsilon,
        "charges": spending.charges,
        "releases": spending.releases,
    }
