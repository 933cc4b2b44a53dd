"""YAML read as data: what a Python tag would construct becomes what it is written as."""

from typing import Any

from tightrope.imports import needed

__all__ = ["read_yaml"]

_LARGEST = 20_000  # characters
_MOST = 10_000  # values, those that aliases repeat counted each time
_DEEPEST = 50


def read_yaml(text: str) -> Any:
    """The value that a document describes.

    An OrderedDict becomes a dictionary, a tuple a list, any other object its first argument.

    Raises:
        ValueError: it is damaged, too long or too deep, or its aliases repeat too much.
    """
    if len(text) > _LARGEST:
        raise ValueError(f"a document of {len(text):,} characters, at most {_LARGEST:,} are read")
    yaml = needed("yaml", "a run folder of rl-baselines3-zoo", "certify")

    class Loader(yaml.SafeLoader):  # type: ignore[misc, name-defined]
        """PyYAML's, which imports nothing and calls nothing."""

        def flatten_mapping(self, node: Any) -> None:
            """Leave merge keys as they are: merges of merges would double without end."""

    Loader.add_multi_constructor("", _constructed)
    try:
        value = yaml.load(text, Loader)
    except (yaml.YAMLError, RecursionError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"no whole YAML document ({type(error).__name__})") from None
    _count(value, 0, _DEEPEST)
    return value


def _constructed(loader: Any, tag: str, node: Any) -> Any:
    """The value of a node whose tag is not YAML's own."""
    kind = type(node).__name__
    if kind == "ScalarNode":
        return loader.construct_scalar(node)
    if kind == "MappingNode":
        value = loader.construct_mapping(node, deep=True)
        arguments = value.get("args") or [None]
        return arguments[0] if "args" in value and isinstance(arguments, list) else value
    items = loader.construct_sequence(node, deep=True)
    if not tag.endswith("OrderedDict"):
        return items
    return {str(key): value for key, value in (items[0] if items else [])}


def _count(value: Any, before: int, deeper: int) -> int:
    """How many values there are, `before` included."""
    if before > _MOST or not deeper:
        raise ValueError(f"a YAML document of more than {_MOST:,} values, or too deep")
    several = isinstance(value, list | tuple | set)
    inner = value.values() if isinstance(value, dict) else value if several else ()
    for each in inner:
        before = _count(each, before, deeper - 1)
    return before + 1
