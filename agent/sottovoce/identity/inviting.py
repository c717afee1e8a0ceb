"""The bundle of a device that does not exist yet: its keys, and the fleet's certificates for them."""

from sottovoce.identity.certificates import Validity
from sottovoce.identity.fleet import Fleet
from sottovoce.identity.invitation import Bundle, Seeds
from sottovoce.identity.new_device import DeviceKeys
from sottovoce.identity.request import read_request


def new_bundle(fleet: Fleet, seeds: Seeds, validity: Validity | None = None) -> Bundle:
    """Make a bundle, with freshly drawn keys, for one new device.

    Args:
        fleet: opened with its key.
        seeds: where the device finds its fleet.
        validity: validity of its certificate; 90 days from now by default.
    """
    keys = DeviceKeys.generate()
    device, tls = keys.encoded()
    return Bundle(
        fleet=fleet.name,
        id=keys.node_id,
        device_key=device.decode(),
        tls_key=tls.decode(),
        certificate=fleet.issue(read_request(keys.request(), "the request"), validity).decode(),
        fleet_certificate=fleet.authority.anchors.pem.decode(),
        seeds=seeds,
    )
