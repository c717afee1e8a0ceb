"""Introductions of devices, true and altered; and devices with a renewed certificate."""

from pathlib import Path
from typing import Any

from sottovoce.fleet import Identity, load
from sottovoce.fleet.renewal import install_certificate, make_renewal_request
from sottovoce.net.transports.mqtt.introduction import introduction
from sottovoce.net.transports.mqtt.secrecy import SessionKey
from sottovoce.net.wire.v1.mqtt_pb2 import Introduction
from sottovoce_operator.fleet import Fleet
from sottovoce_operator.fleet.request import read_request


def a_key() -> bytes:
    """Return a session key whose private half is discarded."""
    return SessionKey().public


def make_introduction(
    identity: Identity, key: bytes, incarnation: int = 1, sequence: int = 1, *, gone: bool = False
) -> bytes:
    """Make an introduction as its device would."""
    return introduction(identity, incarnation, sequence, key, gone=gone)


def alter_introduction(raw: bytes, **fields: Any) -> bytes:
    """Change fields of an introduction, and keep its signature."""
    message = Introduction.FromString(raw)
    for name, value in fields.items():
        setattr(message, name, value)
    return message.SerializeToString(deterministic=True)


def renew_certificate(fleet: Fleet, directory: Path) -> Identity:
    """Give a device a new certificate, valid for the usual time from now."""
    request = read_request(make_renewal_request(directory), "the request")
    install_certificate(directory, fleet.renew(request, ()), "the certificate")
    return load(directory)
