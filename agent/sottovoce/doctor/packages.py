"""Check of the Python packages that Sottovoce always requires, and of those that this configuration requires."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec

from sottovoce.config import AgentConfig
from sottovoce.doctor.finding import Finding, ok, problem
from sottovoce.doctor.subject import Subject
from sottovoce.errors import ExitCode
from sottovoce.model_names import has_graph

CORE = ("aiomqtt", "cryptography", "google.protobuf", "grpc", "msgspec", "numpy", "rich", "tomlkit", "typer")


@dataclass(frozen=True, slots=True)
class Extra:
    """An optional package that some configurations require.

    Attributes:
        module: name under which the package is imported.
        extra: name of the extra that installs the package.
        key: configuration key that requires the package.
        is_required: function that returns whether a configuration requires the package.
        code: exit code of an agent if the package is missing.
    """

    module: str
    extra: str
    key: str
    is_required: Callable[[AgentConfig], bool]
    code: ExitCode = ExitCode.CONFIGURATION


EXTRAS = (
    Extra("zeroconf", "discovery", "membership.mdns", lambda config: config.membership.mdns),
    Extra("dns", "discovery", "membership.dns", lambda config: config.membership.dns is not None),
    Extra("prometheus_client", "metrics", "observe.metrics", lambda config: config.observe.metrics is not None),
    Extra("onnxruntime", "onnx", "learner.model", lambda config: has_graph(config.learner.chosen_model)),
    Extra(
        "sklearn",
        "demo",
        "data.source",
        lambda config: config.data.source.partition("#")[0] in ("digits", "breast-cancer"),
        ExitCode.DATA,
    ),
)


def is_installed(module: str) -> bool:
    """Return whether a module is installed, without importing it."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False


def packages(subject: Subject, has_module: Callable[[str], bool] = is_installed) -> Iterator[Finding]:
    """Check that all required packages are installed."""
    missing = [name for name in CORE if not has_module(name)]
    if missing:
        yield problem(
            f"not installed: {', '.join(missing)}",
            "this installation is incomplete; reinstall Sottovoce",
            ExitCode.CONFIGURATION,
        )
    required = [] if subject.config is None else [extra for extra in EXTRAS if extra.is_required(subject.config)]
    for extra in required:
        if not has_module(extra.module):
            yield problem(
                f"{extra.key} requires the package {extra.module}, which is not installed",
                f"pip install 'sottovoce[{extra.extra}]'",
                extra.code,
            )
            missing.append(extra.module)
    if not missing:
        extras = f", and {', '.join(extra.module for extra in required)}" if required else ""
        yield ok(f"all {len(CORE)} required packages{extras}")
