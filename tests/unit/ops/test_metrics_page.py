"""Metrics as Prometheus reads them, and the limits of their labels."""

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sottovoce.errors import InternalError
from sottovoce.ops.metrics import OTHER, Values, limit_labels, page


def read_samples(values: Values) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Read samples by name and labels, with Prometheus's own parser."""
    families = text_string_to_metric_families(page(values).body.decode())
    return {
        (sample.name, tuple(sample.labels.items())): sample.value for family in families for sample in family.samples
    }


def test_prometheus_reads_the_exported_values() -> None:
    values: Values = {
        "sottovoce_learner_cycles_total": 7,
        "sottovoce_privacy_epsilon_spent": 0.1,
        "sottovoce_privacy_epsilon_limit": None,
        "sottovoce_messages_refused_total": {"shape": 2, "size": 0},
        "sottovoce_privacy_exhausted": True,
    }
    assert read_samples(values) == {
        ("sottovoce_learner_cycles_total", ()): 7,
        ("sottovoce_privacy_epsilon_spent", ()): 0.1,
        ("sottovoce_messages_refused_total", (("reason", "shape"),)): 2,
        ("sottovoce_messages_refused_total", (("reason", "size"),)): 0,
        ("sottovoce_privacy_exhausted", ()): 1,
    }


@pytest.mark.parametrize(
    "values",
    [
        {"sottovoce_made_up": 1.0},
        {"sottovoce_privacy_delta": {"label": 1.0}},
        {"sottovoce_messages_refused_total": 3.0},
    ],
)
def test_an_undocumented_metric_is_a_defect(values: Values) -> None:
    with pytest.raises(InternalError, match=r"bug.*report"):
        page(values)


def test_labels_are_few_and_plain_whatever_the_input() -> None:
    assert limit_labels({"shape": 1, 'a"b\n': 2, "x" * 65: 3, "": 4, "clé": 5}) == {"shape": 1, OTHER: 14}
    many = limit_labels({f"r{i:03}": 1.0 for i in range(100)})
    assert len(many) == 97
    assert (many["r000"], many[OTHER]) == (1, 4)
