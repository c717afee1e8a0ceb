"""Invitation bundles, each with the keys and the certificate that the fleet made for one device."""

from pathlib import Path

import msgspec
from sottovoce.fleet import Validity
from sottovoce.fleet.files import write_new
from sottovoce.fleet.invitation import Bundle, Seeds
from sottovoce.fleet.new_device import DeviceKeys

from sottovoce_operator.fleet.ca import Fleet
from sottovoce_operator.fleet.request import read_request


def new_bundle(fleet: Fleet, seeds: Seeds, validity: Validity | None = None) -> Bundle:
    """Return a bundle with newly generated keys for one new device.

    Args:
        fleet: the fleet, opened with its key.
        seeds: contacts through which the device finds its fleet.
        validity: validity of the device's certificate; defaults to 90 days from now.
    """
    keys = DeviceKeys.generate()
    device, tls = keys.to_pem()
    return Bundle(
        fleet=fleet.name,
        id=keys.node_id,
        device_key=device.decode(),
        tls_key=tls.decode(),
        certificate=fleet.issue(read_request(keys.request(), "the request"), validity).decode(),
        fleet_certificate=fleet.authority.anchors.pem.decode(),
        seeds=seeds,
    )


def write_bundle(path: Path, bundle: Bundle) -> None:
    """Write a bundle to a file that only its owner can read.

    Raises:
        IdentityError: if the file exists or cannot be written.
    """
    write_new({path: msgspec.json.format(msgspec.json.encode(bundle), indent=2) + b"\n"})
