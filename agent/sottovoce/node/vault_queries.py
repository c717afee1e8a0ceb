"""Queries to the vault, sent one at a time and only while peers permit releases and disk writes are allowed."""

import asyncio
import contextlib
from collections.abc import Callable

from sottovoce.errors import PrivacyError
from sottovoce.node.gossip.ledger_head_gossip import LedgerHeadGossip
from sottovoce.node.wait_status import Waits
from sottovoce.node.write_throttle import WriteThrottle
from sottovoce.privacy.api import Answer, CellAnswer, CellQuery, Query, Refused
from sottovoce.privacy.vault import VaultInterface

_WAIT = "vault"
_ANSWER_SECONDS = 600.0
_RETRY_SECONDS = 60.0


class VaultQueries:
    """Queue of queries to the vault; the ledger's new head is stored on this device before an answer is used.

    Args:
        vault: vault to query.
        head_gossip: grants permission to release, and sends new heads to peers.
        waits: record of the waits in progress.
        throttle: blocks while the ledger's write allowance, which limits disk wear, is used up.
        is_leaving: returns whether the device is leaving, in which case no further query is sent.

    Attributes:
        spending: the ledger's spending after the last answer.
    """

    def __init__(
        self,
        vault: VaultInterface,
        head_gossip: LedgerHeadGossip,
        waits: Waits,
        throttle: WriteThrottle,
        is_leaving: Callable[[], bool],
    ) -> None:
        self.spending = vault.spending()
        self._vault = vault
        self._head_gossip = head_gossip
        self._waits = waits
        self._throttle = throttle
        self._is_leaving = is_leaving
        self._lock = asyncio.Lock()

    async def ask(self, query: Query | CellQuery) -> Answer | CellAnswer | None:
        """Return the answer, or None if the agent stops or leaves first; the query is repeated at the next startup.

        If the task has ended, or the owner does not take part in it, the query is repeated periodically.

        Raises:
            PrivacyError: if the terms differ from the vault's.
            LedgerError: see LedgerHeadGossip.wait_for_permission.
            TimeoutError: if the vault does not answer in time.
        """
        while isinstance(answer := await self._ask_once(query), Refused) and answer.reason == "task":
            self._waits.begin(
                "fleet-task", f"the fleet's next task: {answer.explanation}", _RETRY_SECONDS, repeats=True
            )
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._throttle.stopping.wait(), _RETRY_SECONDS)
            self._waits.end("fleet-task")
        return answer

    async def _ask_once(self, query: Query | CellQuery) -> Answer | CellAnswer | None:
        if not await self._head_gossip.wait_for_permission() or not await self._throttle.wait_if_needed():
            return None
        async with self._lock:
            if self._is_leaving():
                return None
            name = "a step of a secure sum" if isinstance(query, CellQuery) else f"query {query.slot}"
            self._waits.begin(_WAIT, f"the vault to answer {name}", _ANSWER_SECONDS)
            async with asyncio.timeout(_ANSWER_SECONDS):
                answer = await self._ask_vault(query)
            self._waits.end(_WAIT)
            if isinstance(answer, Refused) and answer.reason == "terms":  # the learner cannot continue
                raise PrivacyError(
                    f"the vault refused {name}: {answer.explanation}. In the configurations of both the agent "
                    "and the vault, restore the previous settings under [learner], [data] and [privacy]"
                )
            loop = asyncio.get_running_loop()
            self.spending, tip = await loop.run_in_executor(None, lambda: (self._vault.spending(), self._vault.tip()))
            await self._head_gossip.advance(tip)
        return answer

    async def _ask_vault(self, query: Query | CellQuery) -> Answer | CellAnswer:
        return await (self._vault.take_part(query) if isinstance(query, CellQuery) else self._vault.ask(query))

    async def wait_until_idle(self) -> None:
        """Wait until the answer to the current query, if any, has been processed."""
        async with self._lock:
            pass
