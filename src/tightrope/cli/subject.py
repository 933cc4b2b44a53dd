"""What a command is about: what the user names, or the policy that ships with the package."""

from tightrope.errors import InputError

__all__ = ["subject_of"]


def subject_of(given: str, env: str, *, demo: bool, expected: str) -> tuple[str, str]:
    """What was named and its environment, or those of the shipped policy.

    Args:
        given: as typed; empty if nothing was.
        env: id of an environment; empty if none was given.
        demo: whether the shipped policy was asked for.
        expected: what may be named, in words.

    Raises:
        InputError: there is neither, or both.
    """
    if demo:
        if given or env:
            raise InputError("expected `demo` alone, found something else or `env` beside it")
        from tightrope.demo import ENVIRONMENT, policy_path

        return str(policy_path()), ENVIRONMENT
    if not given:
        raise InputError(f"expected {expected}, or `demo`, found neither")
    return given, env
