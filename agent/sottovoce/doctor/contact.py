"""A short test connection to an address: resolve the name, connect by TCP, shake hands by TLS, and send nothing."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

DEADLINE = 6.0
"""Seconds for all connections of one check, which are made concurrently."""

_CONNECT_SECONDS = 5.0
_OBJECTS_SECONDS = 0.5  # in which a TLS 1.3 peer reports a refused certificate; otherwise a broker is silent
K = TypeVar("K", bound=Hashable)

_CLOSED = "it closes the connection: it does not accept this device's certificate, or is not what it should be"
_REFUSALS = {
    "certificate has expired": "its certificate has expired",
    "not yet valid": "its certificate is not yet valid: one of the two clocks is wrong",
    "mismatch": "the device or host that answers there is not the one that its certificate has to name",
    "self-signed": "its certificate is from another fleet, or from an authority not trusted here",
    "unable to get local issuer": "its certificate is from another fleet, or from an authority not trusted here",
    "WRONG_VERSION_NUMBER": "the program that listens there does not use TLS",
    "ALERT": "it does not accept this device's certificate: expired, or of another fleet",
}


def obstacle(host: str, port: int, tls: ssl.SSLContext | None = None, name: str | None = None) -> str | None:
    """Return the obstacle between this device and an address, in words; None if there is none.

    Args:
        host: a name or an address.
        port: port of TCP.
        tls: None for a connection in the clear.
        name: name that the certificate must contain; by default, the host.
    """
    try:
        with socket.create_connection((host, port), timeout=_CONNECT_SECONDS) as plain:
            if tls is None:
                return None
            with tls.wrap_socket(plain, server_hostname=name or host) as connection:
                return _server_refusal(connection)
    except ssl.SSLError as error:  # some of these are ValueErrors
        return _describe_error(error)
    except (socket.gaierror, ValueError):  # a name that cannot be looked up
        return "its host name is not known"
    except TimeoutError:
        return f"no answer within {_CONNECT_SECONDS:g} s"
    except ConnectionRefusedError:
        return "nothing listens there"
    except (ConnectionResetError, BrokenPipeError):
        return _CLOSED
    except OSError as error:
        return error.strerror or "it cannot be reached"


def _server_refusal(connection: ssl.SSLSocket) -> str | None:
    """Return the server's refusal of this device's certificate, which TLS 1.3 reports only after the handshake."""
    connection.settimeout(_OBJECTS_SECONDS)
    try:
        return None if connection.recv(1) else _CLOSED
    except TimeoutError:
        return None


def _describe_error(error: ssl.SSLError) -> str:
    said = str(error)
    return next((words for key, words in _REFUSALS.items() if key in said), f"TLS fails ({error.reason or 'unknown'})")


def obstacles(asked: Mapping[K, Callable[[], str | None]], seconds: float = DEADLINE) -> dict[K, str | None]:
    """Run all checks concurrently, and wait no longer than the deadline: resolving a name can take minutes.

    Args:
        asked: checks to run, by key.
        seconds: limit for all checks together.

    Returns:
        The answers; for a check that has not ended in time, a message that says so.
    """
    late = f"no answer within {seconds:g} s, perhaps of the name server"
    found: dict[K, str | None] = dict.fromkeys(asked, late)
    done = threading.Semaphore(0)

    def run(key: K, ask: Callable[[], str | None]) -> None:
        answer = ask()
        found[key] = answer
        done.release()

    for key, ask in asked.items():  # daemons: a hanging name server must not keep the process alive
        threading.Thread(target=run, args=(key, ask), daemon=True).start()
    end = time.monotonic() + seconds
    for _ in asked:
        done.acquire(timeout=max(0.0, end - time.monotonic()))
    return dict(found)
