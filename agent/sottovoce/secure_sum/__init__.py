"""Secure sums without a server: the messages of a cell's members, and the opening of their sum.

Bonawitz et al. 2017, the variant against active attackers, with any member in the server's place. Here are the public
parts: rules, statements, masks, shares and the opening. Records are only touched in `sottovoce.vault.cell_member`.
"""

STATEMENT_BYTES = 2**13
"""Size of the longest statement, with its owner's certificate."""
