"""JSON schema of the configuration, for use by other programs."""

from typing import Any, Union

import msgspec

from sottovoce.config.schema import WholeConfig
from sottovoce.registry import loaded_algorithms

_NAME = "AgentConfig"


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of a configuration, in which `[learner]` may have the settings of any one algorithm."""
    learners: Any = Union[tuple(known.settings for known in loaded_algorithms().values())]  # noqa: UP007 - built at run time
    found = msgspec.json.schema(WholeConfig[learners], schema_hook=lambda _: {"type": "string"})
    definitions = found["$defs"]
    whole = definitions.pop(found["$ref"].rsplit("/", 1)[1])
    for settings in (definitions[known.settings.__name__] for known in loaded_algorithms().values()):
        settings["required"].remove("name")  # `name` has a default
    return {"$ref": f"#/$defs/{_NAME}", "$defs": {_NAME: {**whole, "title": _NAME}, **definitions}}
