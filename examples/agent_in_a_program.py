"""Run an agent inside another asyncio program: python agent_in_a_program.py agent.toml."""

import asyncio
import sys

import numpy as np
import sottovoce


async def main(config: str) -> None:
    async with sottovoce.Agent.open(config) as agent:  # the agent stops at the end of the block
        async for event in agent.events():
            print(event.kind, "cycle", event.cycle, "releases", event.releases, "ε spent", event.spent_epsilon)
            if event.releases >= 5 and agent.model is not None:
                break
        record = np.zeros((1, agent.config.data.features))
        print("predicted", agent.predict(record), "while", agent.status()["state"])


asyncio.run(main(sys.argv[1]))
