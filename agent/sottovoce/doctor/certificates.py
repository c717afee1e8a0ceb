"""Checks that keys and certificates are complete, private, from one fleet, and valid for long enough."""

import stat
from collections.abc import Iterator
from datetime import timedelta

from sottovoce.agent.assemble import state_files
from sottovoce.agent.preconditions import check_mode, check_peers
from sottovoce.agent.revocation_store import load_revocation_list
from sottovoce.doctor.finding import Finding, ok, problem, refusal_findings, warning
from sottovoce.doctor.subject import Subject
from sottovoce.errors import ExitCode
from sottovoce.identity import Identity, load
from sottovoce.identity.renewal import renewal_time

_OTHER_USERS = stat.S_IRWXG | stat.S_IRWXO
_RENEW = "renew it with `sottovoce fleet renew`: docs/how-to/enrol.md"
_SOON = timedelta(days=1)


def certificates(subject: Subject) -> Iterator[Finding]:
    """Check for faults that would prevent the agent from starting, and for certificates that expire soon."""
    if subject.state is None or not subject.is_readable:
        return
    config, directory = subject.config, state_files(subject.state)[0]
    peers = [] if config is None else [peer.id for peer in config.transport.peers]
    identity = load(directory, peers=peers, check_dates=False)
    yield ok(f"{identity.node_id} of fleet {identity.fleet}: keys and certificates belong together")
    yield _validity(subject, identity)
    if directory.stat().st_mode & _OTHER_USERS:
        yield warning(f"{directory}: other users can access this directory", f"chmod 700 {directory}")
    if config is not None:
        yield from refusal_findings(lambda: check_mode(config, identity))
        yield from refusal_findings(lambda: check_peers(config, identity))
    if config is not None and not identity.ca_pem:
        yield problem(
            "this device is pinned but does not trust any other device",
            "list its peers under transport.peers, and add their certificates with `sottovoce fleet join --pin`",
            ExitCode.IDENTITY,
        )
    revocations = load_revocation_list(subject.state, identity.authority)
    if revocations is not None and identity.node_id in revocations.node_ids:
        yield problem(
            "the fleet has revoked this device, so no other device communicates with it",
            "join as a new device in another state directory",
            ExitCode.IDENTITY,
        )


def _validity(subject: Subject, identity: Identity) -> Finding:
    remaining, renewal = identity.not_after - subject.now, renewal_time(identity)
    days = f"{remaining.days} days" if remaining > _SOON else f"{remaining.total_seconds() / 3600:.0f} hours"
    validity = f"the certificate is valid until {identity.not_after:%Y-%m-%d %H:%M} UTC, {days} more"
    if remaining < timedelta(0):
        expiry = f"the certificate expired on {identity.not_after:%Y-%m-%d %H:%M} UTC, and peers refuse it"
        return problem(expiry, _RENEW, ExitCode.IDENTITY)
    if subject.now > renewal:
        return warning(f"{validity}; renewal has been due since {renewal:%Y-%m-%d}", _RENEW)
    return ok(f"{validity}; renewal is due from {renewal:%Y-%m-%d} on")
