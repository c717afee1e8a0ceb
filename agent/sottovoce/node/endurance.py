"""Run an agent, and restart it after faults from its state on disk, as after a power cut."""

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from sottovoce.concurrency import DEFAULT_THREADS, ThreadPool
from sottovoce.config import AgentConfig
from sottovoce.errors import ExitCode, SottovoceError
from sottovoce.node.assemble import assemble, run_agent
from sottovoce.node.control import STATUS_SCHEMA, ControlServer
from sottovoce.node.faults import (
    STUCK_SECONDS,
    Fault,
    FaultBackoff,
    classify_fault,
    is_supervised,
    notify_while_running,
    transient_fault_kind,
    unrecoverable_disk_error,
)
from sottovoce.node.gossip.result_book import read_results, with_fleet_documents
from sottovoce.ops.machine import use_single_arena
from sottovoce.storage.durable import is_read_only


class Pause:
    """A pause between a fault and the next attempt to run the agent, with a control socket; see ControlTarget.

    Args:
        config: configuration of the agent.
        fault: fault that stopped the agent.
        seconds: length of the pause, in seconds.
    """

    model: NDArray[np.float64] | None = None
    cycle: int = 0

    def __init__(self, config: AgentConfig, fault: Fault, seconds: float) -> None:
        self.config = config
        self.fault = fault
        self._seconds, self._until = seconds, time.monotonic() + seconds
        self._stopping = asyncio.Event()
        self._code: ExitCode | None = None

    async def wait(self) -> ExitCode | None:
        """Wait until the pause has elapsed and return None, or return the exit code if the agent is stopped earlier."""
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPool(DEFAULT_THREADS))
        loop.add_signal_handler(signal.SIGTERM, self.stop)
        loop.add_signal_handler(signal.SIGINT, lambda: self._end(ExitCode.INTERRUPTED))
        section = self.config.agent
        control = ControlServer(section.state / "agent.sock", self, section.readers_socket)
        async with contextlib.AsyncExitStack() as stack:
            with contextlib.suppress(OSError):  # on a full disk, the socket cannot be created
                await control.start()
                stack.push_async_callback(control.stop)
            if self.config.observe.metrics is not None:
                from sottovoce.node.observation import serve_fault_observation

                with contextlib.suppress(SottovoceError, OSError):  # the fault itself may be a missing resource
                    await stack.enter_async_context(serve_fault_observation(self.config.observe.address, self.fault))
            thread = stack.enter_context(ThreadPool(1))
            notifier = loop.create_task(notify_while_running(self._stopping, thread, self.fault.summary))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self._seconds)
            notifier.cancel()
        return self._code

    def status(self) -> dict[str, Any]:
        """Return the status document, which describes the fault and states the seconds until the next attempt."""
        fault, seconds_left = self.fault, max(0.0, self._until - time.monotonic())
        document = {
            "kind": fault.kind,
            "reason": fault.reason,
            "tries_again_s": seconds_left,
            "needs_a_person": fault.needs_a_person,
        }
        return {
            "schema": STATUS_SCHEMA,
            "state": "needs-a-person" if fault.needs_a_person else "waiting",
            "fault": document,
        }

    def stop(self) -> None:
        """End the pause, and stop the agent."""
        self._end(ExitCode.DONE)

    async def fleet_report(self) -> dict[str, Any]:
        """Return the status: this device is not running, and knows no peers."""
        return self.status()

    def retry_fleet_tasks(self) -> None:
        """Do nothing: the agent looks for fleet tasks when it runs again."""

    async def list_results(self) -> list[str]:
        """Return the results that the device has stored."""
        state = self.config.agent.state
        return [with_fleet_documents(document, state).encoding.decode() for document in read_results(state)]

    async def leave(self) -> dict[str, Any]:
        """Stop without handing over any state."""
        self.stop()
        return {"handed_over": False, "left": f"this device {self.fault.summary}"}

    def _end(self, code: ExitCode) -> None:
        self._code = code
        self._stopping.set()


_MAX_PAUSE_SECONDS = 60.0
_NULL = Path(os.devnull)
_MIN_FREE_DESCRIPTORS = 32  # exceeds the number of file descriptors that an agent opens before its first connection
_RECOVERED_AFTER_SECONDS = 60.0  # run time after which the previous fault counts as resolved


def run(config: AgentConfig) -> ExitCode:
    """Run an agent until it is stopped, and restart it after faults.

    The agent is restarted after transient faults and, under a service manager, also after faults that a person must
    fix.

    Returns:
        The exit code; see Agent.run.

    Raises:
        SottovoceError: for a fault that a person must fix, unless a service manager runs this process; for a fault
            that only a new process can resolve; and for a defect.
    """
    use_single_arena()
    previous_handler = signal.getsignal(signal.SIGTERM)
    try:
        return _run_with_retries(config)
    finally:
        signal.signal(signal.SIGTERM, previous_handler)


def _run_with_retries(config: AgentConfig) -> ExitCode:
    # With pauses of at most one period, the agent works again within two periods after a fault has passed.
    backoff = FaultBackoff(min(_MAX_PAUSE_SECONDS, config.learner.period))
    has_worked, lifecycle_log = False, None
    while True:
        signal.signal(signal.SIGTERM, _exit_on_signal)
        started_at, agent = time.monotonic(), None
        try:
            _check_descriptors()
            agent = assemble(config)
            agent.lifecycle_log = lifecycle_log = lifecycle_log or agent.lifecycle_log
            exit_code = asyncio.run(run_agent(agent))
            if not agent.switching_task:
                return exit_code
            backoff.reset()
        except (SottovoceError, OSError, MemoryError, RuntimeError) as error:
            signal.signal(signal.SIGTERM, _exit_on_signal)  # asyncio has removed its own handler
            has_worked = has_worked or (agent is not None and agent.has_worked)
            fault = classify_fault(error, has_worked=has_worked or is_read_only(config.agent.state))
            if fault is None or (fault.needs_a_person and not is_supervised()):
                raise
            if time.monotonic() - started_at > _RECOVERED_AFTER_SECONDS:
                backoff.reset()
            pause, disk_error = backoff.next_delay(fault), unrecoverable_disk_error(config.agent.state)
            if disk_error is not None:
                pause = STUCK_SECONDS
            try:
                _check_descriptors()
                code = asyncio.run(Pause(config, fault, pause).wait())
            except (OSError, MemoryError, RuntimeError) as pause_error:  # no request can be answered in the meantime
                if transient_fault_kind(pause_error, has_worked=True) is None:
                    raise
                time.sleep(pause)
                continue
            if code is not None:
                return code
            if disk_error is not None:
                raise disk_error from error


def _exit_on_signal(*_: object) -> NoReturn:
    """Exit on a stop signal while no agent is running: during assembly, or between two agents."""
    raise SystemExit(ExitCode.DONE)


def _check_descriptors() -> None:
    """Check that enough file descriptors are free, because a shortage during startup may cause a misleading error.

    Raises:
        OSError: if there are too few.
    """
    with contextlib.ExitStack() as stack:
        for _ in range(_MIN_FREE_DESCRIPTORS):
            stack.enter_context(_NULL.open("rb"))
