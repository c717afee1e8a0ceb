"""Words of others on a terminal: what a peer or a broker has said must not steer it."""


def printable(words: str) -> str:
    """The words, with a space in the place of whatever is not to be seen: line ends, escape sequences."""
    return "".join(character if character.isprintable() else " " for character in words)
