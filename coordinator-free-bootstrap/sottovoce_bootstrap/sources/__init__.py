"""Sources of contacts for a device that knows none. Any number at once, and none of them is believed.

A source gives contacts: a node id, and an address where it may be. The exchange with it proves who answers, and brings
a signed record; a contact by itself enters no view and is passed to no one. So a source that lies costs tries.

Peers of the configuration and of the invitation need no looking for: they are a membership's seeds.
"""

from sottovoce_bootstrap.sources.pace import pause
from sottovoce_bootstrap.sources.source import MAX_CONTACTS, Source

__all__ = ["MAX_CONTACTS", "Source", "pause"]
