"""Pictures of an episode, replayed from its recorded seed and actions and drawn off screen.

In a process of its own: what draws may crash, and where nothing can draw a page goes without.
"""

import base64
import ctypes.util
import io
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from tightrope.certificates import Certificate
from tightrope.environments import Recipe
from tightrope.errors import InputError, one_line
from tightrope.processes import start_worker
from tightrope.reports.figures import Seen

__all__ = ["Frame", "Strip", "filmstrips"]

_FRAMES = 6
_SIDE = 220  # pixels of a frame's longer side
_PATIENCE = 300  # seconds without an answer from who draws


@dataclass(frozen=True)
class Frame:
    """One picture: the step that it was taken at, and the picture as a data URI."""

    step: int
    image: str


@dataclass(frozen=True)
class Strip:
    """Pictures of one episode."""

    title: str
    frames: tuple[Frame, ...]


@dataclass(frozen=True)
class _Take:
    """An episode to be replayed."""

    recipe: dict[str, Any]
    seed: int
    actions: Any  # (steps, ...)
    rewards: Any  # (steps,), to see that the replay is the episode
    steps: Sequence[int]  # at which pictures are taken


def filmstrips(certificate: Certificate) -> tuple[Strip, ...]:
    """Pictures of the best and of the worst predicted test episode.

    Raises:
        InputError: the episodes were not rolled out here, or nothing can draw them.
    """
    seen = Seen.of(certificate)
    order = np.argsort(seen.curves.rms, kind="stable")
    chosen = {"Best": int(order[0]), "Worst": int(order[-1])}
    takes = [_take(seen, episode) for episode in chosen.values()]
    found = _drawn(takes)
    return tuple(
        Strip(f"{name} predicted: episode {seen.span[0] + episode}", frames)
        for (name, episode), frames in zip(chosen.items(), found, strict=True)
    )


def _take(seen: Seen, episode: int) -> _Take:
    recorded = seen.certificate.rollouts.episode(seen.span[0] + episode)
    subject = seen.certificate.subject
    known = "policy" in subject and "environment" in subject
    if not known or recorded.actions is None or recorded.seed < 0:
        raise InputError("expected a policy that was rolled out here, found a log")
    last = len(recorded.rewards) - 1
    steps = np.unique(np.linspace(0, last, _FRAMES).round().astype(int)).tolist()
    return _Take(
        subject["environment"], recorded.seed, recorded.actions, recorded.rewards, steps
    )  # fmt: skip


def _drawn(takes: Sequence[_Take]) -> list[tuple[Frame, ...]]:
    with open(os.devnull, "wb") as silent:  # drivers are talkative
        process, connection = start_worker("tightrope.reports.filmstrip", stderr=silent)
    try:
        connection.send(takes)
        if not connection.poll(_PATIENCE):
            raise InputError(f"no picture within {_PATIENCE} seconds")
        answer = connection.recv()
    except (EOFError, ConnectionError):
        raise InputError("the process that draws has died") from None
    finally:
        process.kill()
        process.wait()
        connection.close()
    if isinstance(answer, str):
        raise InputError(answer)
    return list(answer)


def main() -> None:
    """Entry point of the process that draws: the descriptor of its pipe as argument."""
    connection = Connection(int(sys.argv[1]))
    os.dup2(2, 1)  # what an environment prints must not land on the command's standard output
    backend = _backend()
    if backend is not None:
        os.environ["MUJOCO_GL"] = backend
    try:
        connection.send([_replayed(take) for take in connection.recv()])
    except InputError as error:
        connection.send(str(error))
    except Exception as error:  # whatever an environment or a driver raises
        connection.send(f"{type(error).__name__}: {one_line(error)}")


def _backend() -> str | None:
    """What MuJoCo draws with: as the user says, in software, or on a graphics card."""
    if os.environ.get("MUJOCO_GL"):
        return os.environ["MUJOCO_GL"]
    for library, name in (("OSMesa", "osmesa"), ("EGL", "egl")):
        if ctypes.util.find_library(library):
            return name
    return None


def _replayed(take: _Take) -> tuple[Frame, ...]:
    env = Recipe.from_json(take.recipe).make()
    env.unwrapped.render_mode = "rgb_array"
    _follow(env.unwrapped)
    env.reset(seed=take.seed)
    frames = []
    for step, (action, reward) in enumerate(zip(take.actions, take.rewards, strict=True)):
        if step in take.steps:
            frames.append(Frame(step, _picture(env.unwrapped.render())))
        found = float(env.step(action)[1])
        if not np.isclose(found, reward, rtol=1e-6, atol=1e-6):
            raise InputError(
                f"the replay departs from the recording at step {step}: it was made with other "
                "versions or on another processor"
            )
    env.close()
    return tuple(frames)


def _follow(env: Any) -> None:
    """Look through the camera that moves along, where the model has one."""
    renderer = getattr(env, "mujoco_renderer", None)
    if renderer is not None:
        import mujoco  # type: ignore[import-untyped]

        found = mujoco.mj_name2id(env.model, mujoco.mjtObj.mjOBJ_CAMERA, "track")
        if found >= 0:
            renderer.camera_id = found


def _picture(pixels: Any) -> str:
    from PIL import Image

    image = Image.fromarray(np.asarray(pixels, np.uint8))
    image.thumbnail((_SIDE, _SIDE))
    stream = io.BytesIO()
    image.save(stream, format="JPEG", quality=75)
    return "data:image/jpeg;base64," + base64.b64encode(stream.getvalue()).decode()
