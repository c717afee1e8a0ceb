"""`[observe]`: only this machine may monitor, unless configured otherwise."""

import pytest
from sottovoce.config import ObserveSection


@pytest.mark.parametrize(
    "metrics, address",
    [("127.0.0.1:9464", ("127.0.0.1", 9464)), ("127.8.0.1:1", ("127.8.0.1", 1)), ("[::1]:99", ("::1", 99))],
)
def test_local_addresses_are_allowed(metrics: str, address: tuple[str, int]) -> None:
    section = ObserveSection(metrics=metrics)
    assert (section.address, section.is_local) == (address, True)


@pytest.mark.parametrize("metrics", ["0.0.0.0:9464", "[::]:9464", "192.0.2.7:9464", "[2001:db8::9]:9464"])
def test_remote_addresses_need_permission(metrics: str) -> None:
    with pytest.raises(ValueError, match=r"\b127"):
        ObserveSection(metrics=metrics)
    assert not ObserveSection(metrics=metrics, allow_remote=True).is_local


@pytest.mark.parametrize(
    "metrics, problem",
    [
        ("localhost:9464", r"IP address.*port"),
        ("[127.0.0.1:9464", r"IP address.*port"),
        ("127.0.0.1:0", r"port.*\b65535\b"),
        ("127.0.0.1:65536", r"port.*\b65535\b"),
    ],
)
def test_invalid_addresses_are_refused(metrics: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        ObserveSection(metrics=metrics, allow_remote=True)


def test_without_an_address_the_port_is_closed() -> None:
    assert ObserveSection().metrics is None
