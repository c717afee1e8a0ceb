"""Outlines for those who must account for aggregates of meter data: what is known, and what the operator must add.

The outlines follow the questions of three documents: the 15/15 rule for aggregates, which several American regulators
use; the plan in which a British network operator tells Ofgem how it aggregates consumption data; and the description of
a use case by which a Dutch network operator accounts for its use of meter data. They are drafts, not legal advice.
"""

import math
from typing import Any

from sottovoce.config import AgentConfig
from sottovoce.node.gossip.result_book import read_results

_LEAST_HOMES, _LARGEST_SHARE = 15, 0.15
"""The 15/15 rule: an aggregate covers at least 15 customers, none of which has more than 15 % of its consumption."""

_TRANSFORMED = ("prior", "harmonics", "products")


def outline_aggregates(config: AgentConfig, details: dict[str, Any], unanswered: str) -> dict[str, Any] | None:
    """Return the outlines for a device whose releases are secure sums, JSON-serialisable; None for other devices.

    Args:
        config: the device's configuration.
        details: the explanation of its guarantee; see sottovoce.reports.explain.
        unanswered: text for facts that the operator must add.
    """
    cell = config.cell
    if cell is None:
        return None
    homes = min(map(cell.opening_threshold, range(cell.least, cell.most + 1)))
    share, basis = _largest_share(config)
    in_words = f"{details['promise']} Unit: {details['unit']}."
    aggregation = (
        f"each number is a sum over at least {homes} homes, bounded in each home and blurred by noise before it leaves "
        "the home; no party sees a home's own numbers"
    )
    return {
        "least_homes": homes,
        "largest_share": share,
        "largest_share_basis": basis,
        "epsilon_in_words": in_words,
        "rule_15_15": _judge(homes, share, basis),
        "ofgem_plan": {
            "which data": f"half-hourly consumption on the device; released: {details['leaves_the_device']}",
            "purpose": unanswered,
            "how data are aggregated or made anonymous": aggregation,
            "smallest aggregate": f"{homes} homes",
            "what remains identifiable": in_words,
            "retention and deletion": f"{details['erasure']}; of results: {unanswered}",
            "access and security": "readings stay on the device; results are signed by the homes; " + unanswered,
        },
        "dutch_use_case": {
            "goal of the network operator": unanswered,
            "legal basis": unanswered,
            "data and smallest aggregate": f"{aggregation}; smallest aggregate: {homes} homes",
            "why less data do not suffice": unanswered,
            "measures": f"{in_words} Budget: {details['total']}.",
            "information for households": unanswered,
        },
    }


def _largest_share(config: AgentConfig) -> tuple[float | None, str]:
    """Return an upper bound on one home's share of the newest result, if there is one, and what it rests on."""
    clip = getattr(config.learner, "clip", None)
    if clip is None or any(getattr(config.learner, key, None) for key in _TRANSFORMED):
        return None, "not known: the released numbers are not the loads themselves, but differ from public facts"
    results = read_results(config.agent.state)
    if not results:
        return None, "known once a result exists: a home's share is at most the clip divided by the length of the sum"
    opened = results[-1].opened
    squared_length = float(opened.sums @ opened.sums) - len(opened.total) * opened.sigma**2  # without the noise's part
    length = math.sqrt(max(0.0, squared_length))
    share = min(1.0, clip / length) if length > 0 else 1.0
    return share, f"the clip, {clip:.3g}, divided by the length of the newest sum without its noise, {length:.3g}"


def _judge(homes: int, share: float | None, basis: str) -> str:
    """Return whether the 15/15 rule holds, in words."""
    if homes < _LEAST_HOMES:
        return f"not met: a sum may cover only {homes} homes; set privacy.cell.min so that at least 15 remain"
    if share is None:
        return f"not shown: {homes} homes at least, but the largest share of one home is {basis}"
    if share > _LARGEST_SHARE:
        return f"not shown: one home may have up to {share:.0%} of the sum ({basis})"
    return f"met: at least {homes} homes, and no home has more than {share:.0%} of the sum ({basis})"
