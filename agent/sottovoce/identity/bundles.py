"""Creation of an invitation bundle for a new device: new keys, and the certificate that the fleet issues for them."""

from sottovoce.identity.certificates import Validity
from sottovoce.identity.fleet import Fleet
from sottovoce.identity.invitation import Bundle, Seeds
from sottovoce.identity.new_device import DeviceKeys
from sottovoce.identity.request import read_request


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
