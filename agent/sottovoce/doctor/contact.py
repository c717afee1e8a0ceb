"""Short test connections: resolve the name, connect over TCP and complete the TLS handshake without sending data."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

DEADLINE = 6.0
"""Time limit in seconds for all concurrent connections of one check."""

_CONNECT_SECONDS = 5.0
_REFUSAL_SECONDS = 0.5  # time for a TLS 1.3 peer to report a refused certificate; a broker that accepts it is silent
K = TypeVar("K", bound=Hashable)

_CLOSED = "the connection is closed: the other side does not accept this device's certificate, or is another program"
_REFUSALS = {
    "certificate has expired": "its certificate has expired",
    "not yet valid": "its certificate is not yet valid: one of the two clocks is wrong",
    "mismatch": "the certificate of the device or host that answers there does not contain the expected name",
    "self-signed": "its certificate is from another fleet, or from an authority not trusted here",
    "unable to get local issuer": "its certificate is from another fleet, or from an authority not trusted here",
    "WRONG_VERSION_NUMBER": "the program that listens there does not use TLS",
    "ALERT": "the other side does not accept this device's certificate, which is expired or from another fleet",
}


def find_connection_error(
    host: str, port: int, tls: ssl.SSLContext | None = None, name: str | None = None
) -> str | None:
    """Return a description of what prevents a connection to an address; None if the connection succeeds.

    Args:
        host: host name or address.
        port: TCP port.
        tls: TLS context; None for a connection without TLS.
        name: name that the certificate must contain; the host by default.
    """
    try:
        with socket.create_connection((host, port), timeout=_CONNECT_SECONDS) as plain:
            if tls is None:
                return None
            with tls.wrap_socket(plain, server_hostname=name or host) as connection:
                return _server_refusal(connection)
    except ssl.SSLError as error:  # handled first, because some of these errors are also ValueErrors
        return _describe_error(error)
    except (socket.gaierror, ValueError):  # the name cannot be resolved
        return "the host name cannot be resolved"
    except TimeoutError:
        return f"no answer within {_CONNECT_SECONDS:g} s"
    except ConnectionRefusedError:
        return "nothing listens there"
    except (ConnectionResetError, BrokenPipeError):
        return _CLOSED
    except OSError as error:
        return error.strerror or "the address cannot be reached"


def _server_refusal(connection: ssl.SSLSocket) -> str | None:
    """Return the server's refusal of this device's certificate, which TLS 1.3 reports only after the handshake."""
    connection.settimeout(_REFUSAL_SECONDS)
    try:
        return None if connection.recv(1) else _CLOSED
    except TimeoutError:
        return None


def _describe_error(error: ssl.SSLError) -> str:
    message = str(error)
    for part, description in _REFUSALS.items():
        if part in message:
            return description
    return f"TLS fails ({error.reason or 'unknown'})"


def run_with_deadline(checks: Mapping[K, Callable[[], str | None]], seconds: float = DEADLINE) -> dict[K, str | None]:
    """Run all checks concurrently, and return at the deadline, because resolving a name can take minutes.

    Args:
        checks: checks to run, by key.
        seconds: time limit for all checks together.

    Returns:
        The results by key; for a check that did not end in time, a message about the missing answer.
    """
    timeout_message = f"no answer within {seconds:g} s, perhaps from the name server"
    results: dict[K, str | None] = dict.fromkeys(checks, timeout_message)
    done = threading.Semaphore(0)

    def run(key: K, check: Callable[[], str | None]) -> None:
        result = check()
        results[key] = result
        done.release()

    for key, check in checks.items():  # daemon threads, because a hanging name server must not keep the process alive
        threading.Thread(target=run, args=(key, check), daemon=True).start()
    deadline = time.monotonic() + seconds
    for _ in checks:
        done.acquire(timeout=max(0.0, deadline - time.monotonic()))
    return dict(results)
