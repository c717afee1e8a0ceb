"""Track devices caught cheating in secure sums, exclude them from rosters for a while and show them in the status."""

from base64 import b64encode
from collections.abc import Iterable
from dataclasses import replace

from msgspec import msgpack

from sottovoce.algorithms.cell.public.messages import AnyContent, CellMessage, Doubted, Exposed
from sottovoce.algorithms.cell.public.outbox import Step
from sottovoce.algorithms.cell.public.proofs import Proof, judge_proof
from sottovoce.algorithms.cell.public.state import CellState, Finding
from sottovoce.errors import MessageRefused
from sottovoce.learning.learners.learner import Send
from sottovoce.learning.learners.published_records import Provenance
from sottovoce.privacy.cell import Cell
from sottovoce.privacy.secure_sum.statements import Accusation, Statement, body_bytes, decode_body

_EXCLUSION_BEATS = 1_000  # cycles for which a dishonest device is in no roster (decision 45)


class Dishonesty:
    """Records dishonest devices, and warns the other devices about them.

    A device is excluded if it sent this device something that no honest device sends, if a proof shows that it lied,
    or if it is accused by more devices than the cell assumes can collude. What a third device passes on counts against
    the third device, unless the accused has signed it.

    Args:
        owner: the id of this device.
        cell: the cell parameters.
        provenance: signs and verifies statements.
    """

    def __init__(self, owner: str, cell: Cell, provenance: Provenance) -> None:
        self._owner, self._cell, self._provenance = owner, cell, provenance

    def record_lie(self, state: CellState, liar: str, description: str) -> Step:
        """Record that this device caught another one lying, and tell all peers."""
        if liar == self._owner or liar in state.excluded:
            return state, []
        statement = self._provenance.sign(Statement(self._owner, body_bytes(Accusation(liar, description))))
        return self._broadcast(self._strike_off(state, liar, description, "seen here"), Doubted(statement))

    def record_proof(self, state: CellState, proof: Proof) -> Step:
        """Record a proven lie if the proof is valid, and tell all peers if the lie is new."""
        previously_excluded = state.excluded
        try:
            state = self.accept_proof(state, proof)
        except MessageRefused:
            return state, []
        return (state, []) if state.excluded == previously_excluded else self._broadcast(state, Exposed(proof))

    def accept_proof(self, state: CellState, proof: Proof) -> CellState:
        """Record a lie that another device has proven.

        Raises:
            MessageRefused: if the proof is invalid.
        """
        liar, description = judge_proof(proof, self._cell, self._provenance.verify)
        if liar in state.excluded and state.dishonest[liar].source == "proved":
            return state
        return self._strike_off(state, liar, description, "proved", proof)

    @staticmethod
    def proofs(state: CellState, nodes: Iterable[str]) -> list[Proof]:
        """Return this device's proofs against those of the given nodes that are excluded."""
        proofs = (state.dishonest[node].proof for node in nodes if node in state.excluded)
        return [proof for proof in proofs if proof is not None]

    def record_accusation(self, state: CellState, sender: str, statement: Statement) -> CellState:
        """Record the sender's accusation that another device lied.

        Raises:
            MessageRefused: if the sender did not sign the accusation, or is not currently in the fleet.
        """
        if statement.owner != sender:
            raise MessageRefused("cell", "the statement was signed by a device other than its sender")
        doubt = decode_body(statement, Accusation)
        self._provenance.admit(statement)
        if doubt.accused not in state.peers or doubt.accused == sender:
            return state
        by_device = {**state.doubts.get(doubt.accused, {}), sender: doubt.why}
        state = replace(state, doubts={**state.doubts, doubt.accused: by_device})
        accusers = sorted(by_device.keys() - {self._owner})  # what this device doubts by itself is no lie: see `doubts`
        if len(accusers) <= max(1, self._cell.colluding) or doubt.accused in state.excluded:
            return state
        return self._strike_off(state, doubt.accused, doubt.why, f"reported by {', '.join(accusers)}")

    def _strike_off(
        self, state: CellState, liar: str, description: str, source: str, proof: Proof | None = None
    ) -> CellState:
        if liar == self._owner:
            return state
        finding = Finding(description, source, state.cycle + _EXCLUSION_BEATS, proof)
        return replace(state, dishonest={**state.dishonest, liar: finding})

    def _broadcast(self, state: CellState, content: AnyContent) -> Step:
        """Send the same message to all peers."""
        return state, [Send(peer, CellMessage(content, state.simulated)) for peer in state.peers]


def dishonesty_details(state: CellState) -> dict[str, str]:
    """Return the dishonest devices, the accused devices and the proofs as text for the status."""
    details = {
        "dishonest": "; ".join(
            f"{node} {finding.description} ({finding.source})" for node, finding in sorted(state.dishonest.items())
        ),
        "doubted": "; ".join(
            f"{node} {description} (reported by {sender})"
            for node, by_device in sorted(state.doubts.items())
            if node not in state.dishonest
            for sender, description in sorted(by_device.items())
        ),
        "proofs": "; ".join(
            f"{node} {b64encode(msgpack.encode(finding.proof)).decode()}"
            for node, finding in sorted(state.dishonest.items())
            if finding.proof is not None
        ),
    }
    return {key: text for key, text in details.items() if text}
