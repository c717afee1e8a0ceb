"""Sources of contacts for a device that knows none. Any number may be used at once, and none is trusted.

A source gives contacts: node ids with possible addresses. The exchange with a contact proves its identity, and brings
a signed record; a contact alone enters no view and is not forwarded. So a source that lies only costs attempts.

Peers from the configuration and the invitation need no search: they are a membership's seeds.
"""

from sottovoce_bootstrap.sources.pace import pause
from sottovoce_bootstrap.sources.source import MAX_CONTACTS, Source

__all__ = ["MAX_CONTACTS", "Source", "pause"]
