"""Sources of contacts for a device that knows no peers. Any number of sources can be combined, and none is trusted.

A source reports contacts, which are node ids with possible addresses. Only an exchange with a contact proves its
identity and yields its signed record. A contact without a record does not enter the view and is not forwarded, so false
contacts only cost connection attempts.

Peers from the configuration and the invitation do not come from a source: they are the membership's seeds.
"""

from sottovoce_bootstrap.sources.pace import pause
from sottovoce_bootstrap.sources.source import MAX_CONTACTS, Source

__all__ = ["MAX_CONTACTS", "Source", "pause"]
