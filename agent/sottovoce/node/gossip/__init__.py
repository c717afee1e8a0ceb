"""Gossip of documents that every device may check: ledger heads, revocations and addresses of peers."""
