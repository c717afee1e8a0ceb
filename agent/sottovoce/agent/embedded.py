"""An agent inside another asyncio program."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sottovoce.agent import runtime, watch
from sottovoce.agent.assemble import assemble
from sottovoce.agent.predictions import Predictor
from sottovoce.config import AgentConfig, load
from sottovoce.errors import DataError, UsageError

_LONGEST_LOOK = 0.5  # seconds between two looks at the agent's cycle


@dataclass(frozen=True, slots=True)
class AgentEvent:
    """A public change of an agent.

    Attributes:
        kind: `ready` once the agent is at work, `cycle` after each cycle of its learner, `stopped` at the end.
        cycle: number of cycles of its learner so far.
        releases: number of releases of its vault so far.
        spent_epsilon: ε that its ledger has spent; None where nothing is promised.
    """

    kind: Literal["ready", "cycle", "stopped"]
    cycle: int
    releases: int
    spent_epsilon: float | None


class Agent:
    """Agent of a device, running for the duration of its `async with` block.

    The program keeps its own signal handlers and its loop's exception handler. A fault ends the block with its error,
    which states the remedy; the command `sottovoce agent run` also survives faults.

    Args:
        config: configuration of the device.

    Example:
        ```python
        async with sottovoce.Agent.open("agent.toml") as agent:
            async for event in agent.events():
                print(event.kind, event.cycle)
        ```
    """

    def __init__(self, config: AgentConfig) -> None:
        self.config = config
        self._running: runtime.Agent | None = None
        self._work: asyncio.Task[None] | None = None
        self._predictor = Predictor(config)

    @classmethod
    def open(cls, config: Path | str | AgentConfig) -> Self:
        """Return an agent for `async with`.

        Args:
            config: a configuration, or the path of its file.

        Raises:
            ConfigError: if the file cannot be read, or a key is wrong; the message names file, line and key.
        """
        return cls(load(Path(config)) if isinstance(config, str | Path) else config)

    async def __aenter__(self) -> Self:
        """Assemble the agent and start it.

        Raises:
            SottovoceError: if something is missing, damaged, expired, unproved or impossible; nothing was started.
        """
        if self._work is not None:
            raise UsageError("this agent has been started: open another one")
        self._running = await asyncio.to_thread(assemble, self.config)
        self._work = asyncio.create_task(self._run(), name="sottovoce agent")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Stop the agent and wait for its end.

        Raises:
            SottovoceError: the fault that ended the agent, unless the block ends with an error of its own.
        """
        self.stop()
        work = self._running_task()
        await asyncio.wait({work})
        if kind is None:
            work.result()

    def stop(self) -> None:
        """Ask the agent to stop; the end of the `async with` block waits for it."""
        self._agent.stop()

    async def wait(self) -> None:
        """Wait until the agent has stopped.

        Raises:
            SottovoceError: the fault that ended it.
        """
        await asyncio.shield(self._running_task())

    def status(self) -> dict[str, Any]:
        """Return the document of `sottovoce agent status --json`: public state, without any record data."""
        return self._agent.status()

    @property
    def model(self) -> NDArray[np.float64] | None:
        """The public model, float64[P]; None before the first cycle."""
        return self._agent.model

    async def events(self) -> AsyncIterator[AgentEvent]:
        """Yield changes of the agent until it stops; of the cycles within half a second, only the newest.

        Raises:
            SottovoceError: the fault that ended it.
        """
        work, seen = self._running_task(), -1
        look = min(_LONGEST_LOOK, self.config.learner.period / 4)
        ready = False
        while not work.done():
            if self._agent.has_worked and not ready:
                ready = True
                yield self._event("ready")
            elif ready and self._agent.cycle != seen:
                seen = self._agent.cycle
                yield self._event("cycle")
            await asyncio.wait({work}, timeout=look)
        work.result()
        yield self._event("stopped")

    def predict(self, features: ArrayLike) -> NDArray[Any]:
        """Return predictions of the public model. The features stay on this machine, and nothing is charged.

        Args:
            features: float[M, d], as they are measured; the declared transform is applied here.

        Returns:
            labels int64[M], or values float64[M] of a regression.

        Raises:
            DataError: if there is no model yet, the model has diverged, or the features do not fit it.
        """
        rows = np.asarray(features, dtype=np.float64)
        if rows.ndim != 2 or not np.isfinite(rows).all():
            raise DataError(f"features of shape {rows.shape}: give finite numbers, one row per record")
        return self._predictor.predict(rows, self.model)

    @property
    def _agent(self) -> runtime.Agent:
        if self._running is None:
            raise UsageError("this agent is not running: use `async with Agent.open(…) as agent`")
        return self._running

    def _running_task(self) -> "asyncio.Task[None]":
        if self._work is None:
            raise UsageError("this agent is not running: use `async with Agent.open(…) as agent`")
        return self._work

    def _event(self, kind: Literal["ready", "cycle", "stopped"]) -> AgentEvent:
        spending = self._agent.spending
        return AgentEvent(kind, self._agent.cycle, spending.releases, spending.promised_epsilon)

    async def _run(self) -> None:
        """Run the agent; when the fleet signs another task, run the agent that is assembled for that task."""
        while True:
            await watch.run(self._agent, embedded=True)
            if not self._agent.changing:
                return
            self._running = await asyncio.to_thread(assemble, self.config)
