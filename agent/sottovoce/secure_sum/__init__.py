"""Secure sums without a server: what the members of a cell say to one another, and how their sum is opened.

Bonawitz et al. 2017, the variant against active attackers, with any member in the server's place. Here are the public
parts: rules, statements, masks, shares and the opening. What touches a record is in `sottovoce.vault.cell_member`.
"""

STATEMENT_BYTES = 2**13
"""Size of the longest statement, with its owner's certificate."""
