"""An agent that outlives faults which pass: it is put together anew from its disk, as after a power cut."""

import asyncio
import contextlib
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sottovoce.agent import watch
from sottovoce.agent.assemble import assemble
from sottovoce.agent.control import ControlServer
from sottovoce.agent.faults import Patience, passing
from sottovoce.agent.heap import one_arena
from sottovoce.agent.notify import attend, tell
from sottovoce.agent.status import SCHEMA
from sottovoce.config import AgentConfig
from sottovoce.errors import ExitCode, SottovoceError

_LONGEST_PAUSE = 60.0  # seconds
_NULL = Path(os.devnull)
_DESCRIPTORS = 32  # more than an agent has open before its first connection
_WORKED_SECONDS = 60.0  # after which an agent has got over what ended the one before


def run(config: AgentConfig) -> ExitCode:
    """Work until told to stop, over faults that pass by themselves.

    Returns:
        See Agent.run.

    Raises:
        SottovoceError: something that needs a person.
    """
    one_arena()
    patience = Patience(min(_LONGEST_PAUSE, config.learner.period))  # two periods after a fault it is at work
    worked = False
    while True:
        began, agent = time.monotonic(), None
        try:
            _enough_descriptors()
            agent = assemble(config)
            return asyncio.run(watch.run(agent))
        except (SottovoceError, OSError, MemoryError) as error:
            worked = worked or (agent is not None and agent.worked)
            if (kind := passing(error, worked=worked)) is None:
                tell(f"STATUS=needs a person: {' '.join(str(error).split())}")
                raise
            if time.monotonic() - began > _WORKED_SECONDS:
                patience.renewed()
            pause = patience.pause(kind, error)
            try:
                _enough_descriptors()
            except OSError:  # nobody can be answered meanwhile
                time.sleep(pause)
                continue
            if (code := asyncio.run(_Pause(config, kind, str(error), pause).wait())) is not None:
                return code


def _enough_descriptors() -> None:
    """To begin with; what fails for the want of one in the midst of a start may say something else.

    Raises:
        OSError: there are not.
    """
    with contextlib.ExitStack() as stack:
        for _ in range(_DESCRIPTORS):
            stack.enter_context(_NULL.open("rb"))


class _Pause:
    """What answers in the agent's place meanwhile; see Controlled.

    Args:
        config: the agent's.
        kind: of the fault.
        reason: what the agent ended with.
        seconds: that it lasts.
    """

    model: NDArray[np.float64] | None = None
    cycle: int = 0

    def __init__(self, config: AgentConfig, kind: str, reason: str, seconds: float) -> None:
        self.config = config
        self._kind, self._reason = kind, reason
        self._seconds, self._until = seconds, time.monotonic() + seconds
        self._stopping = asyncio.Event()
        self._code: ExitCode | None = None

    async def wait(self) -> ExitCode | None:
        """None when it is over; or how the agent ends, having been told to stop."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.stop)
        loop.add_signal_handler(signal.SIGINT, lambda: self._end(ExitCode.INTERRUPTED))
        control = ControlServer(self.config.agent.state / "agent.sock", self)
        with contextlib.suppress(OSError):  # a full disk has no room for a socket either
            await control.start()
        with ThreadPoolExecutor(max_workers=1) as thread:
            told = loop.create_task(attend(self._stopping, thread, f"waits for a fault to pass: {self._kind}"))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self._seconds)
            told.cancel()
        with contextlib.suppress(OSError):
            await control.stop()
        return self._code

    def status(self) -> dict[str, Any]:
        """That it waits, for what, and until when it does."""
        left = max(0.0, self._until - time.monotonic())
        fault = {"kind": self._kind, "reason": self._reason, "tries_again_s": left, "needs_a_person": False}
        return {"schema": SCHEMA, "state": "waiting", "fault": fault}

    def stop(self) -> None:
        """Wait no longer, and end."""
        self._end(ExitCode.DONE)

    async def leave(self) -> dict[str, Any]:
        """Nothing can be handed over now."""
        self.stop()
        return {"handed_over": False, "left": f"it waits for a fault to pass ({self._kind})"}

    def _end(self, code: ExitCode) -> None:
        self._code = code
        self._stopping.set()
