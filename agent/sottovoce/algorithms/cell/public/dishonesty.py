"""Track devices caught cheating in secure sums, exclude them from rosters for a while and show them in the status."""

from base64 import b64encode
from collections.abc import Iterable
from dataclasses import replace

from msgspec import msgpack

from sottovoce.algorithms.cell.public.messages import CellMessage, Doubted, Exposed, Said
from sottovoce.algorithms.cell.public.post import Step
from sottovoce.algorithms.cell.public.state import CellState, Finding
from sottovoce.cell import Cell
from sottovoce.errors import MessageRefused
from sottovoce.learners.events import Send
from sottovoce.learners.published import Provenance
from sottovoce.secure_sum.proofs import Proof, judge_proof
from sottovoce.secure_sum.statements import Doubt, Statement, body_bytes, body_of

_STRUCK_BEATS = 1_000


class Dishonesty:
    """A record of dishonest devices that also warns the other devices about them.

    A device is struck off if this device caught it lying, if a proof shows that it lied, or if more devices accuse it
    than the cell assumes can collude.

    Args:
        owner: the id of this device.
        cell: the cell parameters.
        provenance: signs and verifies statements.
    """

    def __init__(self, owner: str, cell: Cell, provenance: Provenance) -> None:
        self._owner, self._cell, self._provenance = owner, cell, provenance

    def record_lie(self, state: CellState, liar: str, why: str) -> Step:
        """Record that this device caught another one lying, and tell all peers."""
        if liar == self._owner or liar in state.struck:
            return state, []
        statement = self._provenance.signed(Statement(self._owner, body_bytes(Doubt(liar, why))))
        return self._tell_all(self._strike_off(state, liar, why, "seen here"), Doubted(statement))

    def record_proof(self, state: CellState, proof: Proof) -> Step:
        """Record a proven lie if the proof is valid, and tell all peers if the lie is new."""
        before = state.struck
        try:
            state = self.accept_proof(state, proof)
        except MessageRefused:
            return state, []
        return (state, []) if state.struck == before else self._tell_all(state, Exposed(proof))

    def accept_proof(self, state: CellState, proof: Proof) -> CellState:
        """Record a lie that another device has proven.

        Raises:
            MessageRefused: if the proof is invalid.
        """
        liar, why = judge_proof(proof, self._cell, self._provenance.verify)
        if liar in state.struck and state.dishonest[liar].how == "proved":
            return state
        return self._strike_off(state, liar, why, "proved", proof)

    @staticmethod
    def proofs(state: CellState, nodes: Iterable[str]) -> list[Proof]:
        """Return this device's proofs against the given nodes, as far as they are struck off."""
        found = (state.dishonest[node].proof for node in nodes if node in state.struck)
        return [proof for proof in found if proof is not None]

    def doubted(self, state: CellState, sender: str, statement: Statement) -> CellState:
        """Record the sender's accusation that another device lied.

        Raises:
            MessageRefused: if the sender did not sign the accusation, or is not currently in the fleet.
        """
        if statement.owner != sender:
            raise MessageRefused("cell", "a device sent another device's statement")
        said = body_of(statement, Doubt)
        self._provenance.admit(statement)
        if said.accused not in state.peers or said.accused == sender:
            return state
        by_device = {**state.doubts.get(said.accused, {}), sender: said.why}
        state = replace(state, doubts={**state.doubts, said.accused: by_device})
        if len(by_device) <= max(1, self._cell.colluding) or said.accused in state.struck:
            return state
        return self._strike_off(state, said.accused, said.why, f"reported by {', '.join(sorted(by_device))}")

    def _strike_off(self, state: CellState, liar: str, why: str, how: str, proof: Proof | None = None) -> CellState:
        if liar == self._owner:
            return state
        finding = Finding(why, how, state.cycle + _STRUCK_BEATS, proof)
        return replace(state, dishonest={**state.dishonest, liar: finding})

    def _tell_all(self, state: CellState, said: Said) -> Step:
        """Send the same message to all peers."""
        return state, [Send(peer, CellMessage(said, state.simulated)) for peer in state.peers]


def dishonesty_details(state: CellState) -> dict[str, str]:
    """Return the dishonest devices, the accused devices and the proofs as text for the status."""
    found = {
        "dishonest": "; ".join(f"{node} {one.why} ({one.how})" for node, one in sorted(state.dishonest.items())),
        "doubted": "; ".join(
            f"{node} {why} (reported by {sender})"
            for node, by_device in sorted(state.doubts.items())
            if node not in state.dishonest
            for sender, why in sorted(by_device.items())
        ),
        "proofs": "; ".join(
            f"{node} {b64encode(msgpack.encode(one.proof)).decode()}"
            for node, one in sorted(state.dishonest.items())
            if one.proof is not None
        ),
    }
    return {key: words for key, words in found.items() if words}
