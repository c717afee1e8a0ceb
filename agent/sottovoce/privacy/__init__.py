"""The part that an auditor reads: vault, ledger, mechanisms, secure sums, and the accounting of ε and δ."""
