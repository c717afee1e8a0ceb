"""A plan as text and as JSON."""

from collections.abc import Iterator
from typing import Any

from sottovoce_operator.plan.plan import Plan, PlannedProduct, is_worth_it

SCHEMA = "sottovoce.plan/1"


def to_lines(plan: Plan) -> Iterator[str]:
    """Yield the lines of the table that people read."""
    yield f"homes    {plan.homes} in the fleet, {plan.heard} expected in the sum"
    yield f"privacy  ε = {plan.epsilon:g} once; noise of σ = {plan.sigma:.3g} in a sum of sensitivity 1"
    yield (
        f"traffic  {plan.numbers} numbers from each home, which sends about {plan.sent_bytes / 1e3:.0f} kB in all and "
        f"receives about {plan.received_bytes / 1e3:.0f} kB"
    )
    yield ""
    yield f"{'product':<18}{'expected error':>18}{'public prior':>14}  worth it"
    for product in plan.products:
        yield f"{product.estimate.name:<18}{_error(product):>18}{_prior(product):>14}  {_verdict(plan, product)}"


def to_document(plan: Plan) -> dict[str, Any]:
    """Return the plan as one JSON-serialisable document; errors are in the product's unit and relative to its mean."""
    return {
        "schema": SCHEMA,
        "homes": plan.homes,
        "heard": plan.heard,
        "epsilon": plan.epsilon,
        "sigma": plan.sigma,
        "numbers": plan.numbers,
        "sent_bytes": plan.sent_bytes,
        "received_bytes": plan.received_bytes,
        "products": [
            {
                "name": product.estimate.name,
                "unit": product.estimate.unit,
                "error": product.estimate.error,
                "relative_error": product.relative_error,
                "prior_error": product.estimate.prior_error,
                "relative_prior_error": product.relative_prior_error,
                "worth_it": is_worth_it(product.estimate, plan.heard),
                "worth_from": product.worth_from,
            }
            for product in plan.products
        ],
    }


def _error(product: PlannedProduct) -> str:
    relative = product.relative_error
    return f"{product.estimate.error:.1f} homes" if relative is None else f"{relative:.1%}"


def _prior(product: PlannedProduct) -> str:
    relative = product.relative_prior_error
    return "-" if relative is None else f"{relative:.1%}"


def _verdict(plan: Plan, product: PlannedProduct) -> str:
    if is_worth_it(product.estimate, plan.heard):
        return "yes"
    return "no" if product.worth_from is None else f"from about {product.worth_from:,} homes"
