"""Keys and certificates from a real fleet for simulated agents, whose wall clocks may be wrong.

On these wall clocks, a cycle takes one day. Device keys, and therefore device ids, are derived from the seed. The rest
of a certificate differs between runs, but does not affect a device's behaviour.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from sottovoce.fleet import Identity, Validity
from sottovoce.fleet.authority import Authority
from sottovoce.fleet.certificates import fleet_certificate
from sottovoce.fleet.new_device import DeviceKeys
from sottovoce.learning.learners import Signed
from sottovoce.node.provenance import FleetProvenance, MemberVerifier, SignatureVerifier
from sottovoce_operator.fleet import Fleet
from sottovoce_operator.fleet.request import read_request
from typing_extensions import override

_FLEET = "simulated"
_TASK = sha256(b"simulated").digest()
_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)
_MAX_VERIFIED = 2**16
_LIFETIME_DAYS = 3650.0  # lifetime of device certificates that are never renewed; the fleet certificate lives longer


class SharedVerifier(SignatureVerifier):
    """A verifier that all agents of a simulation share, so that a signature is verified once, not by each of them.

    Args:
        authority: the fleet's authority.
    """

    def __init__(self, authority: Authority) -> None:
        super().__init__(authority, _TASK)
        self._fleet, self._verified = authority.fleet, OrderedDict[tuple[bytes, bytes, bytes], None]()

    @override
    def verify(self, published: Signed) -> None:
        """Verify a published document, unless the same one has been verified before."""
        content = sha256(published.signed_bytes(self._fleet, _TASK)).digest()
        key = (published.credential, published.signature, content)
        if key not in self._verified:
            super().verify(published)
            self._verified[key] = None
            if len(self._verified) > _MAX_VERIFIED:
                self._verified.popitem(last=False)


class Member:
    """An enrolled agent with its identity, its revocation list and its wall clock.

    Args:
        fleet: the fleet in which the agent is enrolled.
        keys: the agent's keys.
        lifetime: the validity period of the agent's certificates, in days.
        days: returns the number of days since the run started.
        verifier: verifies signatures; None if the agent and its vault verify every signature themselves.

    Attributes:
        revoked_ids: the revoked node ids that the agent knows of.
        clock_error_days: how many days the agent's wall clock is ahead; negative if it is behind.
        provenance: signs the agent's statements and verifies other agents' signatures.
        witness: signs and verifies for the agent's vault in secure sums.
    """

    def __init__(
        self,
        fleet: Fleet,
        keys: DeviceKeys,
        lifetime: float,
        days: Callable[[], float],
        verifier: SignatureVerifier | None = None,
    ) -> None:
        self._fleet, self._keys, self._lifetime, self._days = fleet, keys, lifetime, days
        self.revoked_ids: set[str] = set()
        self.clock_error_days = 0.0
        self._identity = self._issue_identity()
        self.provenance = FleetProvenance(self._identity, _TASK, self.revoked_ids.__contains__, self.clock, verifier)
        self.witness = MemberVerifier(fleet.authority, _TASK, lambda: self.revoked_ids, self.clock, verifier)

    @property
    def node(self) -> str:
        """The agent's node id."""
        return self._identity.node_id

    def clock(self) -> float:
        """Return the time on the agent's own wall clock, as Unix time in seconds."""
        return (_BEGAN + timedelta(days=self._days() + self.clock_error_days)).timestamp()

    def renew(self) -> None:
        """Renew the certificate if two thirds of its lifetime have passed on the fleet's clock."""
        identity = self._identity
        if (
            _BEGAN + timedelta(days=self._days())
            >= identity.not_before + (identity.not_after - identity.not_before) * 2 / 3
        ):
            self._identity = self._issue_identity()
            self.provenance.renew(self._identity)

    def _issue_identity(self) -> Identity:
        """Issue a new certificate, valid for `lifetime` days from now, and return the agent's identity with it."""
        now = _BEGAN + timedelta(days=self._days())
        validity = Validity(now - _DAY / 24, now + timedelta(days=self._lifetime))
        pem = self._fleet.issue(read_request(self._keys.request(), "the request"), validity)
        certificate = x509.load_pem_x509_certificate(pem)
        return Identity(
            node_id=self._keys.node_id,
            fleet=self._fleet.name,
            mode="fleet-ca",
            public_key=self._keys.device.public_key().public_bytes_raw(),
            tls_key_pem=b"",
            tls_cert_pem=pem,
            certificate_der=certificate.public_bytes(Encoding.DER),
            not_before=validity.not_before,
            not_after=validity.not_after,
            authority=self._fleet.authority,
            _device_key=self._keys.device,
        )


def enrol_agents(
    agents: int, seed: int, validity_days: int | None, days: Callable[[], float], *, share_verifier: bool = True
) -> Sequence[Member]:
    """Enrol a run's agents in a new fleet.

    Args:
        agents: the number of agents.
        seed: the seed from which the agents' keys and ids are derived.
        validity_days: the validity period of certificates, in days; None if they are valid for the whole run.
        days: returns the number of days since the run started.
        share_verifier: whether each signature is verified only once in the process; see SharedVerifier.
    """
    key = generate_private_key(SECP256R1())
    validity = Validity(_BEGAN - timedelta(days=_LIFETIME_DAYS), _BEGAN + timedelta(days=2 * _LIFETIME_DAYS))
    fleet = Fleet(_FLEET, fleet_certificate(_FLEET, key, validity), key)

    def keys(number: int) -> DeviceKeys:
        private_key = sha256(f"{seed}/{number}".encode()).digest()
        return DeviceKeys(Ed25519PrivateKey.from_private_bytes(private_key), generate_private_key(SECP256R1()))

    verifier, lifetime = SharedVerifier(fleet.authority) if share_verifier else None, validity_days or _LIFETIME_DAYS
    return [Member(fleet, keys(number), lifetime, days, verifier) for number in range(agents)]
