"""`python -m sottovoce_lab.testbed.containers prepare | device | results`: run a service of a compose testbed."""

import json
import os
import socket
import sys
from pathlib import Path

from sottovoce.errors import ExitCode, SottovoceError

ROOT = Path("/fleet/places")
AUTHORITY = Path("/fleet/authority")
BROKER = Path("/fleet/broker")
_ROLES = "prepare, device or results"


def main(arguments: list[str]) -> int:
    """Run one service, and return its exit code."""
    try:
        match arguments:
            case ["prepare"]:
                from sottovoce_lab.testbed.containers.prepare import prepare
                from sottovoce_lab.testbed.containers.settings import ContainerSettings

                count = prepare(ContainerSettings.read(os.environ), AUTHORITY, BROKER, ROOT)
                print(f"prepared {count} device directories in {ROOT}")  # noqa: T201
                return ExitCode.DONE
            case ["device"]:
                from sottovoce_lab.testbed.containers.device import run
                from sottovoce_lab.testbed.containers.settings import read_faults

                host = socket.gethostname()
                return run(ROOT, read_faults(os.environ), host, socket.gethostbyname(host))
            case ["results"]:
                from sottovoce_lab.testbed.containers.results import results
                from sottovoce_lab.testbed.containers.settings import ContainerSettings

                print(json.dumps(results(ContainerSettings.read(os.environ), ROOT), indent=2, ensure_ascii=False))  # noqa: T201
                return ExitCode.DONE
            case _:
                print(f"sottovoce: choose a role: {_ROLES}", file=sys.stderr)  # noqa: T201
                return ExitCode.USAGE
    except SottovoceError as error:
        print(f"sottovoce: {error}", file=sys.stderr)  # noqa: T201
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
