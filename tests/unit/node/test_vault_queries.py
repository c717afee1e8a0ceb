"""Queries to the vault, and what the agent logs of the answers."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from sottovoce.node.vault_session import VaultQueries
from sottovoce.node.waits import Waits
from sottovoce.privacy.api import Query, Refused


async def _permit(*_: object) -> bool:
    return True


def _refusing_vault(reason: str) -> Any:
    async def ask(query: Query) -> Refused:
        return Refused(query.id, reason, f"the terms have no quantity {query.kind!r}; they have 'sums'")

    return SimpleNamespace(ask=ask, spending=lambda: None, tip=lambda: None)


@pytest.mark.parametrize("reason", ["query", "budget"])
def test_a_quantity_that_the_terms_lack_is_logged_by_name(caplog: pytest.LogCaptureFixture, reason: str) -> None:
    heads: Any = SimpleNamespace(wait_for_permission=_permit, advance=lambda tip: None)
    throttle: Any = SimpleNamespace(wait_if_needed=_permit)
    queries = VaultQueries(_refusing_vault(reason), heads, Waits(), throttle, lambda: False)
    answer = asyncio.run(queries.ask(Query("learner", "summs", 0, np.zeros(0))))
    assert cast(Refused, answer).reason == reason
    logged = "query-refused quantity=summs" in caplog.text and "'sums'" in caplog.text
    assert logged is (reason == "query")
