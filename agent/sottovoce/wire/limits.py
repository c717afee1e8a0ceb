"""Limits of a message; anything beyond them is refused before it is used."""

# gRPC receives 4 MiB by default; 64 KiB of it stay free for what a transport adds.
MAX_ENVELOPE_BYTES = 4 * 2**20 - 64 * 2**10

# Eight bytes each; at least 64 KiB of an envelope stay free for its other fields.
MAX_PARAMETERS = (MAX_ENVELOPE_BYTES - 64 * 2**10) // 8

# Published records in one message, and the bytes of one owner's certificate.
MAX_RECORDS = 4096
MAX_CREDENTIAL_BYTES = 4096
