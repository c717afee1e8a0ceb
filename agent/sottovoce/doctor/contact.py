"""One short connection to an address: its name is resolved, TCP connects, TLS shakes hands, and nothing is said."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

DEADLINE = 6.0
"""Seconds for all connections of one check together, which are made at the same time."""

_CONNECT_SECONDS = 5.0
_OBJECTS_SECONDS = 0.5  # in which anyone who refuses a certificate of TLS 1.3 says so; a broker says nothing else
K = TypeVar("K", bound=Hashable)

_CLOSED = "it closes the connection: it does not accept this device's certificate, or is not what it should be"
_REFUSALS = {
    "certificate has expired": "its certificate has expired",
    "not yet valid": "its certificate is not yet valid: one of the two clocks is wrong",
    "mismatch": "another device or host answers there than its certificate would have to name",
    "self-signed": "its certificate is from another fleet, or from an authority not trusted here",
    "unable to get local issuer": "its certificate is from another fleet, or from an authority not trusted here",
    "WRONG_VERSION_NUMBER": "what listens there speaks no TLS",
    "ALERT": "it does not accept this device's certificate: expired, or of another fleet",
}


def obstacle(host: str, port: int, tls: ssl.SSLContext | None = None, name: str | None = None) -> str | None:
    """The obstacle between this device and an address, in words; None if there is none.

    Args:
        host: a name or an address.
        port: port of TCP.
        tls: None for a connection in the clear.
        name: name that the certificate must carry; without it the host.
    """
    try:
        with socket.create_connection((host, port), timeout=_CONNECT_SECONDS) as plain:
            if tls is None:
                return None
            with tls.wrap_socket(plain, server_hostname=name or host) as connection:
                return _objection(connection)
    except ssl.SSLError as error:  # a kind of ValueError, some of them
        return _words(error)
    except (socket.gaierror, ValueError):  # a name of which no question can be made
        return "its host name is not known"
    except TimeoutError:
        return f"no answer within {_CONNECT_SECONDS:g} s"
    except ConnectionRefusedError:
        return "nothing listens there"
    except (ConnectionResetError, BrokenPipeError):
        return _CLOSED
    except OSError as error:
        return error.strerror or "it cannot be reached"


def _objection(connection: ssl.SSLSocket) -> str | None:
    """The other side's objection to this device's certificate, which TLS 1.3 shows only after the handshake."""
    connection.settimeout(_OBJECTS_SECONDS)
    try:
        return None if connection.recv(1) else _CLOSED
    except TimeoutError:
        return None


def _words(error: ssl.SSLError) -> str:
    said = str(error)
    return next((words for key, words in _REFUSALS.items() if key in said), f"TLS fails ({error.reason or 'unknown'})")


def obstacles(asked: Mapping[K, Callable[[], str | None]], seconds: float = DEADLINE) -> dict[K, str | None]:
    """Ask all at once, and wait no longer than the deadline: resolving a name can take minutes.

    Args:
        asked: called for each.
        seconds: for all together.

    Returns:
        The answers; for whatever has not ended in time, that.
    """
    late = f"no answer within {seconds:g} s, perhaps of the name server"
    found: dict[K, str | None] = dict.fromkeys(asked, late)
    done = threading.Semaphore(0)

    def run(key: K, ask: Callable[[], str | None]) -> None:
        answer = ask()
        found[key] = answer
        done.release()

    for key, ask in asked.items():  # daemons: what hangs in a name server's hands does not keep the process
        threading.Thread(target=run, args=(key, ask), daemon=True).start()
    end = time.monotonic() + seconds
    for _ in asked:
        done.acquire(timeout=max(0.0, end - time.monotonic()))
    return dict(found)
