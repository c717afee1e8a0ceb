"""JSON schema of the configuration, for use by other programs."""

from typing import Any, Union

import msgspec

from sottovoce.config.schema import WholeConfig
from sottovoce.learning.registry import loaded_algorithms

_NAME = "AgentConfig"


def json_schema() -> dict[str, Any]:
    """Return a configuration's JSON schema, in which `[learner]` may have the settings of any one algorithm."""
    learners: Any = Union[tuple(algorithm.settings for algorithm in loaded_algorithms().values())]  # noqa: UP007 - built at run time
    schema = msgspec.json.schema(WholeConfig[learners], schema_hook=lambda _: {"type": "string"})
    definitions = schema["$defs"]
    config = definitions.pop(schema["$ref"].rsplit("/", 1)[1])
    for settings in (definitions[algorithm.settings.__name__] for algorithm in loaded_algorithms().values()):
        settings["required"].remove("name")  # `name` has a default
    return {"$ref": f"#/$defs/{_NAME}", "$defs": {_NAME: {**config, "title": _NAME}, **definitions}}
