"""Message limits; messages that exceed them are refused before they are used."""

# gRPC accepts 4 MiB by default; 64 KiB of that are reserved for data that a transport adds.
MAX_ENVELOPE_BYTES = 4 * 2**20 - 64 * 2**10

# Each parameter takes up to eight bytes; at least 64 KiB of an envelope are reserved for its other fields.
MAX_PARAMETERS = (MAX_ENVELOPE_BYTES - 64 * 2**10) // 8

# Maximum number of published records in one message, and maximum size of one owner's certificate in bytes.
MAX_RECORDS = 4096
MAX_CREDENTIAL_BYTES = 4096
