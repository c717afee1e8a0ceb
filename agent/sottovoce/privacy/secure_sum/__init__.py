"""Secure sums without a server: the messages that a cell's members exchange, and the opening of their sum.

The protocol is the variant of Bonawitz et al. 2017 that resists active attackers, except that any member can take the
server's role. This package contains the public parts: rules, statements, masks, shares and the opening. Only
`sottovoce.privacy.vault.cell_member` accesses records.
"""

STATEMENT_BYTES = 2**13
"""Maximum size of a statement in bytes, including its owner's certificate."""
