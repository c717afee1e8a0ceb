"""Where results come from: a device of the fleet, or a result file."""

from dataclasses import dataclass
from pathlib import Path

from sottovoce.errors import DataError, IdentityError, NetworkError, UsageError
from sottovoce.fleet import load
from sottovoce.fleet.identity import IDENTITY
from sottovoce.node.control import ask
from sottovoce.node.opened_sum import MAX_FILE_BYTES, ResultFile, read_result, verify_result

_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Result:
    """A result, and what is known about its signatures.

    Attributes:
        document: the opened sum with its signatures.
        required: number of signatures that prove it.
        reason: why the signatures do not prove it on this machine; None if they do.
    """

    document: ResultFile
    required: int
    reason: str | None


def read_from_file(file: Path) -> Result:
    """Return the result in a file, whose signatures are not checked here.

    Raises:
        DataError: if the file cannot be read, or is not a result file.
    """
    document = read_result(read_bytes(file), file)
    return Result(document, _required(document), f"not checked: `sottovoce results verify {file} --fleet ca.pem` does")


def read_from_device(state: Path, epoch: int | None = None) -> Result:
    """Return a result that the agent on a state directory holds.

    Args:
        state: the state directory.
        epoch: epoch of the fleet task; None for the newest result.

    Raises:
        NetworkError: if no agent of this version answers.
        DataError: if the agent has no such result yet.
    """
    answer = ask(state, "results", _SECONDS, waiting=True)
    if "results" not in answer:
        raise NetworkError(f"{state}: the agent there does not know results; update it and start it again")
    documents = [read_result(text.encode(), f"{state}: a result") for text in answer["results"]]
    chosen = [document for document in documents if epoch in (None, document.opened.epoch)]
    if not chosen:
        of_epoch = "" if epoch is None else f" of epoch {epoch}"
        raise DataError(
            f"{state}: this device has no result{of_epoch}. A result exists once a secure sum of the learner `average` "
            '(privacy.noise = "cell") has been opened; `sottovoce agent status --why` shows what the device waits for'
        )
    document, identity = chosen[-1], load(state / IDENTITY, check_dates=False)
    try:
        verify_result(document, identity.authority, (), required=1)
    except IdentityError as error:
        return Result(document, _required(document), str(error))
    return Result(document, _required(document), None)


def read_bytes(file: Path) -> bytes:
    """Return the content of a file that may be a result file.

    Raises:
        DataError: if the file cannot be read.
    """
    try:
        with file.open("rb") as stream:
            return stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror})") from error


def find_state(config: Path | None, state: Path | None) -> Path:
    """Return the state directory that the options specify.

    Raises:
        UsageError: if not exactly one of them is given.
    """
    if state is not None and config is None:
        return state
    if config is None or state is not None:
        raise UsageError("specify one of FILE, --config FILE and --state DIRECTORY")
    from sottovoce.config import load as load_config

    return load_config(config).agent.state


def _required(document: ResultFile) -> int:
    return document.opened.read_cell().opening_threshold(len(document.opened.owners))
