"""Status of unreachable contacts."""

from types import SimpleNamespace
from typing import Any, cast

from sottovoce.cli.agent import _waiting_lines
from sottovoce.node.gossip.peer_sampling import PeerFailures
from sottovoce.node.status import _unreached_contacts
from sottovoce_bootstrap import Contact

INVITED, LINKED, FORGOTTEN = "a" * 32, "b" * 32, "c" * 32


def test_every_unreachable_contact_is_listed_except_links_and_forgotten_devices() -> None:
    known = {node: Contact(node, (f"{node[0]}.example:7400",)) for node in (INVITED, LINKED)}
    failing_peers = {node: PeerFailures(2, "of another fleet") for node in (INVITED, LINKED, FORGOTTEN)}
    peer_sampling = SimpleNamespace(failing_peers=failing_peers, membership=SimpleNamespace(find=known.get))
    (peer,) = _unreached_contacts(cast(Any, SimpleNamespace(peer_sampling=peer_sampling, links={LINKED: None})))
    assert (peer["id"], peer["address"], peer["failures_in_a_row"]) == (INVITED, "a.example:7400", 2)
    assert peer["last_failure"] == "of another fleet"
    assert _unreached_contacts(cast(Any, SimpleNamespace(peer_sampling=None, links={}))) == []


def test_why_names_unreachable_contacts_and_endless_waits() -> None:
    waits = [
        {"reason": "a peer", "since_s": 1.0, "left_s": 2.0, "repeats": False},
        {"reason": "an echo", "since_s": 1.0, "left_s": 60.0, "repeats": True},
    ]
    peers = [
        {"address": "x:1", "failures_in_a_row": 0, "last_failure": ""},
        {"address": "y:2", "failures_in_a_row": 3, "last_failure": "of another fleet"},
    ]
    assert _waiting_lines({"waiting": waits, "peers": peers}) == [
        "waiting for a peer: 1.0 s so far, at most 2.0 s more",
        "waiting for an echo: 1.0 s so far, next check in 60.0 s",
        "cannot reach y:2: of another fleet",
    ]
