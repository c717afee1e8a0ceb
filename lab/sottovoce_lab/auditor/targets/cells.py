"""Subjects for devices in a cell that the leader, the network and all colluding members attack together.

The auditor has the keys of all other members, so it can remove the masks from the audited device's vector. It then adds
the other honest members' noise shares, which a real attacker does not know.
"""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import Any, cast

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray
from sottovoce.data import Records
from sottovoce.errors import PrivacyError
from sottovoce.kernels.profile import Profile
from sottovoce.kernels.softmax import Softmax
from sottovoce.privacy.api import CellQuery, Query, Refused
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.mechanisms.cell_sum import CellMechanism
from sottovoce.privacy.secure_sum import steps
from sottovoce.privacy.secure_sum.masks import centre_values, own_mask, pair_mask, unpack_values
from sottovoce.privacy.secure_sum.neighbourhoods import neighbourhoods
from sottovoce.privacy.secure_sum.share_tree import ShareTree, share_leaves
from sottovoce.privacy.secure_sum.shares import Combiner, Shares, open_shares, seal_shares
from sottovoce.privacy.secure_sum.statements import Offer, Ready, Statement, body_bytes, roster_from_offers
from sottovoce.privacy.terms import build
from sottovoce.privacy.terms.cell_gradients import CellGradientTerms
from sottovoce.privacy.vault import Ledger, OperatingSystemNoise, Vault
from typing_extensions import override

from sottovoce_lab.auditor.laws import claimed_mu
from sottovoce_lab.auditor.subject import ObservedRun
from sottovoce_lab.auditor.targets.means import Means
from sottovoce_lab.auditor.targets.sums import GaussianSums

Floats = NDArray[np.float64]
SMALL = Cell(4, 8, 1, 0.7)
"""A cell that is small enough for quick rounds."""

_ROWS = 1024


def _accept_statement(statement: Statement) -> None:
    del statement  # the auditor signs the statements of all other members, so there is no need to check them


@dataclass(frozen=True)
class OtherMembers:
    """All other members of the smallest allowed roster, emulated by the auditor.

    Attributes:
        learner: the name of the learner that requests the sums.
        mechanism: each member's mechanism.
        honest: how many noise shares in a sum the attacker does not know, including the audited device's own share.
        owner: the id of the audited device.
    """

    learner: str
    mechanism: CellMechanism
    honest: int
    owner: str = "audited"
    _noise: OperatingSystemNoise = field(default_factory=OperatingSystemNoise)

    @cached_property
    def keys(self) -> list[tuple[X25519PrivateKey, X25519PrivateKey]]:
        """The keys of the other members, with one mask key and one share key each."""
        count = self.mechanism.cell.least - 1
        return [(X25519PrivateKey.generate(), X25519PrivateKey.generate()) for _ in range(count)]

    def observe_round(self, vault: Vault, slot: int, point: bytes) -> Floats:
        """Return the attacker's view of one round, float64[P]: the device's part plus noise unknown to the attacker.

        Raises:
            PrivacyError: if the vault refuses a step that it should have answered.
        """
        members, mechanism = self.mechanism.cell.least, self.mechanism
        part = self.part(vault, slot, point)
        for _ in range(self.honest - 1):
            part = part + mechanism.apply(iter([]), members, self._noise)
        observation: Floats = part * np.float64(mechanism.step)
        return observation

    def part(self, vault: Vault, slot: int, point: bytes) -> NDArray[np.int64]:
        """Return the vault's contribution to a sum, int64[P] in grid units; its only noise is the device's own share.

        Raises:
            PrivacyError: see `observe_round`.
        """
        own_offer = self._ask(vault, steps.Begin(slot, point))
        assert isinstance(own_offer, Offer)  # noqa: S101 - the only possible answer to Begin
        offers = [own_offer, *(_offer(slot, point, masks, shares) for masks, shares in self.keys)]
        names = [self.owner, *(f"{self.owner}-{i:04d}" for i in range(len(self.keys)))]
        roster = roster_from_offers(
            [Statement(name, body_bytes(offer)) for name, offer in zip(names, offers, strict=True)]
        )
        sealed = self._ask(vault, steps.Join(roster.statements))
        assert isinstance(sealed, steps.Sealed)  # noqa: S101
        graph, members = neighbourhoods(self.mechanism.cell, roster.digest, len(roster)), tuple(range(len(roster)))
        holders = graph.holders(0)
        seeds = {
            rank: open_shares(
                self.keys[index - 1][1], own_offer.share_key, roster.digest, 0, index, sealed.sealed[rank]
            ).seed
            for rank, index in enumerate(holders)
            if index
        }
        opened_ranks = tuple(sorted(seeds))[: graph.threshold]
        empty_shares = Shares(bytes(33), bytes(33))
        sealed_shares, paths, roots = {0: b""}, {0: b""}, {0: ShareTree(sealed.leaves, sealed.sealed).root}
        for index, (_, shares) in enumerate(self.keys, 1):
            bundle, rank = [b""] * graph.holder_count, graph.rank(index, 0)
            if rank is not None:
                bundle[rank] = seal_shares(shares, own_offer.share_key, roster.digest, index, 0, empty_shares)
                sealed_shares[index] = bundle[rank]
            tree = ShareTree(share_leaves([empty_shares] * graph.holder_count), bundle)
            roots[index], paths[index] = tree.root, b"" if rank is None else tree.path(rank)
        agree = steps.Agree(
            members,
            tuple(sealed_shares[holder] for holder in holders),
            tuple(paths[holder] for holder in holders),
            tuple(roots.values()),
        )
        ready = self._ask(vault, agree)
        assert isinstance(ready, Ready)  # noqa: S101
        readies = tuple(Statement(owner, body_bytes(ready)) for owner in roster.owners)
        masked = self._ask(vault, steps.Mask(readies))
        assert isinstance(masked, steps.Vector)  # noqa: S101
        size, h = self.mechanism.size, masked.statement.round
        width = len(masked.vector) // size
        vector = unpack_values(masked.vector, width) - own_mask(Combiner(opened_ranks).secret(seeds), h, size, width)
        for index in holders:
            if not index:
                continue
            masks = self.keys[index - 1][0]
            vector = vector - pair_mask(masks, own_offer.mask_key, h, (0, index), size, width)
        return centre_values(vector, width)

    def _ask(self, vault: Vault, step: steps.Question) -> steps.Answer:
        answer = vault.step(CellQuery(self.learner, steps.encode_step(step)))
        if isinstance(answer, Refused):
            raise PrivacyError(f"the vault refused a step: {answer.explanation}")
        return steps.decode_answer(answer.payload)


def _offer(slot: int, point: bytes, masks: X25519PrivateKey, shares: X25519PrivateKey) -> Offer:
    publics = (masks.public_key().public_bytes_raw(), shares.public_key().public_bytes_raw())
    return Offer(slot, sha256(point).digest(), *publics, bytes(32))


@dataclass(frozen=True, slots=True)
class CellMeans(Means):
    """A subject like Means, whose device releases its mean only as part of a cell's secure sum.

    Attributes:
        extra_colluding: how many more members collude than the cell tolerates, to measure the privacy loss.
    """

    extra_colluding: int = 0

    default_trials = 2048

    @property
    @override
    def observation(self) -> str:
        return "wire"

    @property
    @override
    def public_parameters(self) -> dict[str, Any]:
        cell = self.cell
        return {
            "clip": self.terms.profile.bound,
            "members": cell.least,
            "colluding": cell.colluding + self.extra_colluding,
        }

    @property
    def cell(self) -> Cell:
        """The cell parameters."""
        return self.terms.cell or SMALL

    @property
    def sigma(self) -> float:
        """σ of the observation, which is the σ of the sum of all honest noise shares."""
        mechanism = self._mechanism
        return mechanism.share(self.cell.least) * mechanism.step * math.sqrt(self._honest)

    @override
    def vault(self, records: Records, ledger: Ledger) -> Vault:
        noise = OperatingSystemNoise()
        return build(
            records=records,
            kernel=None,
            terms=self.terms,
            ledger=ledger,
            noise=noise,
            verify_signature=_accept_statement,
        )

    @override
    def observe(self, vault: Vault, count: int) -> ObservedRun:
        values = OtherMembers(self.terms.learner, self._mechanism, self._honest).observe_round(vault, 0, b"")
        return ObservedRun(values[np.newaxis], np.empty((1, 0)))

    def queries(self, records: Records) -> tuple[list[Query], Query]:
        """Return no paid queries, because such a vault takes part in sums instead of answering queries; see Subject."""
        return [], Query(self.terms.learner, "mean", 0, np.empty(0))

    @override
    def scalar_variant(self) -> "CellMeans":
        return replace(self, terms=replace(self.terms, profile=replace(cast(Profile, self.terms.profile), width=1)))

    @property
    def _honest(self) -> int:
        return self.cell.honest_shares(self.cell.least) - self.extra_colluding

    @property
    def _mechanism(self) -> CellMechanism:
        return self.terms.cell_mechanism(self.budget)


@dataclass(frozen=True, slots=True)
class CellGradients(GaussianSums):
    """Gradient sums from a device in a cell, with the terms that this number of sums has outside a cell.

    Attributes:
        cell: the cell parameters.
    """

    cell: Cell = SMALL

    @property
    @override
    def observation(self) -> str:
        return "wire"

    @property
    @override
    def public_parameters(self) -> dict[str, Any]:
        cell = self.cell
        facts = {"members": cell.least, "colluding": cell.colluding}
        return {"releases": self.slots, "clip": self.clip, **facts}

    @property
    def sigma(self) -> float:
        """σ of the observation: C √sums / μ, or slightly more, because noise shares are drawn in whole grid units."""
        assert self.terms.clip is not None  # noqa: S101
        minimum = self.terms.clip * math.sqrt(self.terms.releases) / claimed_mu(self.budget)
        mechanism, honest = self._mechanism, self.cell.honest_shares(self.cell.least)
        return max(minimum, mechanism.share(self.cell.least) * mechanism.step * math.sqrt(honest))

    @property
    def grid(self) -> None:
        """None, because the masks hide the low bits as well; see Subject.grid."""
        return

    @override
    def vault(self, records: Records, ledger: Ledger) -> Vault:
        return build(
            records=records,
            kernel=self.kernel,
            terms=self._terms,
            ledger=ledger,
            noise=OperatingSystemNoise(),
            verify_signature=_accept_statement,
        )

    def observe(self, vault: Vault, count: int) -> ObservedRun:
        """Run the sums at the initial point, because the leader may choose the point; see Subject.observe."""
        start = np.zeros(self.kernel.size)
        others = OtherMembers(self.terms.learner, self._mechanism, self.cell.honest_shares(self.cell.least))
        raw = start.astype("<f8").tobytes()
        values = np.stack([others.observe_round(vault, slot, raw) for slot in range(self.terms.releases)])
        return ObservedRun(values, np.stack([start] * self.terms.releases))

    def queries(self, records: Records) -> tuple[list[Query], Query]:
        """Return no paid queries, because such a vault takes part in sums instead of answering queries; see Subject."""
        return [], Query(self.terms.learner, "gradient", 0, np.zeros(self.kernel.size))

    @override
    def scalar_variant(self) -> "CellGradients":
        return replace(self, kernel=Softmax(1, 1))

    @property
    def _terms(self) -> CellGradientTerms:
        clip = self.terms.clip or 0.0
        return CellGradientTerms(self.terms.learner, self.terms.releases, clip, self.cell, _ROWS)

    @property
    def _mechanism(self) -> CellMechanism:
        return self._terms.mechanism(self.kernel, self.budget, by_kernel=False)
