"""`sottovoce plan`: expected errors before anything is spent, and refusals in words."""

import json
from pathlib import Path

import pytest
from sottovoce.errors import ConfigError
from sottovoce_operator.plan.plan import Plan, is_worth_it, make_plan, refusals
from sottovoce_operator.plan.tables import to_document, to_lines

TASK = """
[task]
name = "year"
[data]
features = 48
classes = 2
expected_records = 365
transform = "none"
windows = ["2027-01-01", "2027-12-31"]
[learner]
name = "average"
products = [{products}]
[privacy]
unit = "device"
noise = "{noise}"
epsilon = {epsilon}
{cell}
"""
CELL = "cell = {min = 10, max = 1000, colluding = 1, spare = 0}"


def plan_of(directory: Path, homes: int, *products: str, epsilon: float = 1.0, silent: float = 0.3) -> Plan:
    file = directory / "task.toml"
    listed = ", ".join(f'"{name}"' for name in products)
    file.write_text(TASK.format(products=listed, noise="cell", epsilon=epsilon, cell=CELL))
    return make_plan(file, homes, silent)


@pytest.mark.slow
def test_more_homes_and_more_epsilon_lower_every_expected_error(tmp_path: Path) -> None:
    names = "monthly-profile", "flags", "annual-quantiles"
    few, many = plan_of(tmp_path, 100, *names), plan_of(tmp_path, 400, *names)
    generous = plan_of(tmp_path, 100, *names, epsilon=4.0)
    for one, other, third in zip(few.products, many.products, generous.products, strict=True):
        relative = few.heard if one.estimate.unit == "homes" else 1
        relative_many = many.heard if one.estimate.unit == "homes" else 1
        assert other.estimate.error / relative_many < one.estimate.error / relative, one.estimate.name
        assert third.estimate.error < one.estimate.error, one.estimate.name


@pytest.mark.slow
def test_a_small_fleet_is_refused_by_product_with_the_number_of_homes_that_is_enough(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, 30, "monthly-profile", "flags")
    refused = {product.estimate.name: product for product in plan.refused}
    assert {"monthly-profile", "flags"} <= refused.keys()
    sentences = [*refusals(plan)]
    for name, product in refused.items():
        assert product.worth_from is not None
        assert product.worth_from > 30
        assert any(name in sentence and f"{product.worth_from:,}" in sentence for sentence in sentences)
    enough = max(product.worth_from or 0 for product in plan.products)
    assert not plan_of(tmp_path, enough, "monthly-profile", "flags").refused


def test_a_plan_prints_each_product_and_the_document_has_the_same_numbers(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, 300, "monthly-profile")
    lines, document = [*to_lines(plan)], json.loads(json.dumps(to_document(plan)))
    assert document["schema"] == "sottovoce.plan/1"
    for product, entry in zip(plan.products, document["products"], strict=True):
        assert entry["worth_it"] == is_worth_it(product.estimate, plan.heard)
        assert any(line.startswith(entry["name"]) and f"{entry['relative_error']:.1%}" in line for line in lines)


@pytest.mark.parametrize(
    "homes, silent, cell, noise, words",
    [
        (300, 0.3, "", "local", r"privacy\.noise.*cell"),
        (2_000, 0.3, CELL, "cell", r"privacy\.cell.*2000.*10 to 1000"),
        (300, 0.6, CELL, "cell", r"threshold.*300.*120"),
    ],
)
def test_a_fleet_that_cannot_open_the_sum_is_refused(
    tmp_path: Path, homes: int, silent: float, cell: str, noise: str, words: str
) -> None:
    file = tmp_path / "task.toml"
    file.write_text(TASK.format(products='"flags"', noise=noise, epsilon=1.0, cell=cell))
    with pytest.raises(ConfigError, match=words):
        make_plan(file, homes, silent)
