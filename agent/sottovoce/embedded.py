"""Run an agent inside another asyncio program."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sottovoce.config import AgentConfig, config_from_tables, load
from sottovoce.data import Table
from sottovoce.errors import DataError, UsageError
from sottovoce.node import runtime
from sottovoce.node.assemble import assemble, run_agent
from sottovoce.node.public_model import Predictor
from sottovoce.node.waits import leave_out_earlier_writes

_MAX_POLL_SECONDS = 0.5  # longest time between two checks of the agent's cycle, in seconds


@dataclass(frozen=True, slots=True)
class AgentEvent:
    """A change in an agent's public state.

    Attributes:
        kind: `ready` once the agent is running, `cycle` after a learner cycle, and `stopped` at the end.
        cycle: number of learner cycles so far.
        releases: number of releases by the vault so far.
        spent_epsilon: ε spent, as recorded in the ledger; None if nothing is promised.
    """

    kind: Literal["ready", "cycle", "stopped"]
    cycle: int
    releases: int
    spent_epsilon: float | None


class Agent:
    """A device's agent that runs for the duration of its `async with` block.

    The program's signal handlers and its event loop's exception handler stay in place. If a fault occurs, the block
    ends with an error that states the remedy. Unlike this class, the command `sottovoce agent run` survives faults.

    Args:
        config: the device's configuration.
        table: rows that take the place of data.source; None to read that.

    Example:
        ```python
        async with sottovoce.Agent.open("agent.toml") as agent:
            async for event in agent.events():
                print(event.kind, event.cycle)
        ```
    """

    def __init__(self, config: AgentConfig, table: Table | None = None) -> None:
        self.config = config
        self._table = table
        self._runtime: runtime.Agent | None = None
        self._task: asyncio.Task[None] | None = None
        self._predictor = Predictor(config)

    @classmethod
    def open(
        cls,
        config: Path | str | Mapping[str, Any] | AgentConfig,
        *,
        records: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> Self:
        """Return an agent for use with `async with`.

        Args:
            config: the path of a configuration file; its tables as a dictionary, such as `{"agent": {"state": "a"}}`,
                in which relative paths start in the current directory; or a configuration.
            records: features numeric[n, d] and labels, integer[n] or n names; each row becomes a record by itself, as
                from a file. The agent keeps a copy. Requires data.source = "arrays".

        Raises:
            ConfigError: if the file cannot be read, or a key is wrong; the message contains the file, line and key.
            UsageError: if records are passed that the configuration does not use, or the other way round.
        """
        if isinstance(config, str | Path):
            config = load(Path(config))
        elif isinstance(config, Mapping):
            config = config_from_tables(config, "Agent.open")
        if (config.data.source == "arrays") != (records is not None):
            raise UsageError(
                f'Agent.open: data.source is {config.data.source!r}: set it to "arrays" if, and only if, you pass '
                "records=(X, y)"
            )
        if records is None:
            return cls(config)
        if config.vault.socket is not None:
            raise UsageError("Agent.open: a separate vault reads its own records: remove records= or vault.socket")
        try:
            features, labels = (np.array(part) for part in records)
        except (TypeError, ValueError) as error:
            raise UsageError(
                "Agent.open: records must be two arrays (X, y), with one row and one label each"
            ) from error
        return cls(config, Table(name="arrays", rows=(features, labels), origin="records"))

    async def __aenter__(self) -> Self:
        """Assemble and start the agent.

        Raises:
            SottovoceError: if something is missing, corrupt, expired, unproved or impossible; nothing has been started.
        """
        if self._task is not None:
            raise UsageError("this agent has already been started; open a new one")
        leave_out_earlier_writes()
        self._runtime = await asyncio.to_thread(assemble, self.config, None, self._table)
        self._task = asyncio.create_task(self._run(), name="sottovoce agent")
        return self

    async def __aexit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the agent and wait until it has stopped.

        Raises:
            SottovoceError: the fault that ended the agent, unless the block itself raises an error.
        """
        self.stop()
        task = self._running_task()
        await asyncio.wait({task})
        if error_type is None:
            task.result()

    def stop(self) -> None:
        """Ask the agent to stop; the `async with` block waits for it at the end."""
        self._agent.stop()

    async def wait(self) -> None:
        """Wait until the agent has stopped.

        Raises:
            SottovoceError: the fault that ended the agent.
        """
        await asyncio.shield(self._running_task())

    async def ready(self) -> None:
        """Wait until the agent is running.

        Raises:
            SottovoceError: the fault that ended the agent.
            UsageError: if the agent was stopped before it was running.
        """
        async with aclosing(self.events()) as events:
            async for event in events:
                if event.kind == "ready":
                    return
        raise UsageError("the agent was stopped before it was running; open a new one")

    def status(self) -> dict[str, Any]:
        """Return the same document as `sottovoce agent status --json`: public state without any record data."""
        return self._agent.status()

    @property
    def model(self) -> NDArray[np.float64] | None:
        """The public model, float64[P]; None before the first cycle."""
        return self._agent.model

    async def events(self) -> AsyncGenerator[AgentEvent, None]:
        """Yield the agent's changes until it stops; of several cycles within half a second, only the last is reported.

        Raises:
            SottovoceError: the fault that ended the agent.
        """
        task, last_cycle = self._running_task(), -1
        interval = min(_MAX_POLL_SECONDS, self.config.learner.period / 4)
        is_ready = False
        while not task.done():
            if self._agent.has_worked and not is_ready:
                is_ready = True
                yield self._event("ready")
            elif is_ready and self._agent.cycle != last_cycle:
                last_cycle = self._agent.cycle
                yield self._event("cycle")
            await asyncio.wait({task}, timeout=interval)
        task.result()
        yield self._event("stopped")

    def predict(self, features: ArrayLike) -> NDArray[Any]:
        """Return the public model's predictions; the features stay on this machine, and nothing is charged.

        Args:
            features: float[M, d], as measured; this method applies the declared transform.

        Returns:
            labels int64[M], or values float64[M] for a regression.

        Raises:
            DataError: if there is no model yet, the model has diverged, or the features do not fit it.
        """
        rows = np.asarray(features, dtype=np.float64)
        if rows.ndim != 2 or not np.isfinite(rows).all():
            raise DataError(
                f"invalid features of shape {rows.shape}; pass a two-dimensional array of finite numbers with one "
                "row per record"
            )
        return self._predictor.predict(rows, self.model)

    @property
    def _agent(self) -> runtime.Agent:
        if self._runtime is None:
            raise UsageError("this agent is not running; use `async with Agent.open(…) as agent`")
        return self._runtime

    def _running_task(self) -> "asyncio.Task[None]":
        if self._task is None:
            raise UsageError("this agent is not running; use `async with Agent.open(…) as agent`")
        return self._task

    def _event(self, kind: Literal["ready", "cycle", "stopped"]) -> AgentEvent:
        spending = self._agent.spending
        return AgentEvent(kind, self._agent.cycle, spending.releases, spending.promised_epsilon)

    async def _run(self) -> None:
        """Run the agent; whenever another fleet task has been activated, assemble and run an agent for that task."""
        while True:
            await run_agent(self._agent, embedded=True)
            if not self._agent.switching_task:
                return
            self._runtime = await asyncio.to_thread(assemble, self.config, None, self._table)
