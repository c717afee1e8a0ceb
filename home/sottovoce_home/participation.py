"""The fleet's newest task in Home Assistant, with a switch that lets the owner choose whether to take part."""

import logging
from typing import Any

from sottovoce.config import AgentConfig
from sottovoce.errors import ConfigError, SottovoceError
from sottovoce.fleet.consent import read_consent
from sottovoce.fleet.signed_task import SignedTask
from sottovoce.node.control import consent_directory, load_newest_task, record_answer

from sottovoce_home.home_assistant import leave_payload, take_part_payload

_log = logging.getLogger("sottovoce.home.participation")
_MAX_STATE_LENGTH = 255  # longest state that Home Assistant accepts
_NONE = SignedTask(fleet="-", epoch=1, issued=0, tables={})


class Participation:
    """A device's participation in the fleet's tasks.

    Every method reads or writes files, so call it outside the event loop.

    Args:
        config: the complete configuration.

    Attributes:
        epoch: epoch of the newest task that has been shown; 0 before the first.

    Raises:
        ConfigError: if this user may not read the owner's consent.
    """

    def __init__(self, config: AgentConfig) -> None:
        self._config = config
        self._active_epoch = self.epoch = 0
        self._has_failed = False
        try:
            load_newest_task(config)
            read_consent(consent_directory(config), _NONE)
        except SottovoceError as error:
            raise ConfigError(
                f"feed.home_assistant.tasks: {error}; run the feed as the agent's user, or remove this key"
            ) from error

    def state(self, status: dict[str, Any]) -> dict[str, Any]:
        """Return the newest task, the reason if it is inactive, and whether the owner takes part in it.

        Unknown values are None.

        Args:
            status: the agent's status.
        """
        try:
            task = load_newest_task(self._config)
            answer = None if task is None else read_consent(consent_directory(self._config), task)
        except SottovoceError as error:
            if not self._has_failed:
                _log.warning("task-not-shown %s", error)
            self._has_failed = True
            return {"task": None, "takes_part": None}
        self._has_failed = False
        if task is None:
            return {"task": "none", "takes_part": None}
        self.epoch, self._active_epoch = task.epoch, status["task"]["epoch"]
        waits = (status["task"]["next"] or {}).get("because")
        name = f"{task.epoch}: {task.tables.get('task', {}).get('name', '')}"
        takes = answer == "approved" or (answer is None and self._active_epoch == task.epoch)
        return {
            "task": (f"{name} ({waits})" if waits else name)[:_MAX_STATE_LENGTH],
            "takes_part": "ON" if takes else "OFF",
        }

    def handle_switch(self, payload: bytes) -> None:
        """Record the owner's answer from the switch, but only if it applies to the newest task."""
        try:
            task = load_newest_task(self._config)
            if task is None or payload not in (
                take_part_payload(task.epoch).encode(),
                leave_payload(task.epoch).encode(),
            ):
                _log.warning("switch-not-heard the switch refers to an older task")
            elif payload == take_part_payload(task.epoch).encode():
                record_answer(self._config, task, "approved")
            else:
                record_answer(self._config, task, "withdrawn" if self._active_epoch == task.epoch else "refused")
        except SottovoceError as error:
            _log.warning("switch-not-heard %s", error)
