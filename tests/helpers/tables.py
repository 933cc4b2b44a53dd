"""Tables and LeRobot folders written without tightrope, and what they should be read as.

The layouts of LeRobot follow its public documentation: version 2.1 has a .parquet file and a line
of meta/episodes.jsonl for each episode, version 3.0 packs episodes in files and lists them in
meta/episodes as .parquet. A feature of shape (1,) is a plain number, one of shape (n,) a list.
"""

import csv
import json
from pathlib import Path

import numpy as np

from tightrope.rollouts import Episode, join


def filled(lengths=(3, 1, 4), seed=0, *, actions=np.float32, subject=None):
    """Episodes with every field filled."""
    rng = np.random.default_rng(seed)
    made = [
        Episode(
            observations=rng.normal(size=(length, 2)).astype(np.float32),
            rewards=rng.normal(size=length),
            terminated=index % 2 == 0,
            truncated=index % 2 == 1,
            seed=100 + index,
            actions=rng.integers(0, 100, (length, 1)).astype(actions),
            final_observation=rng.normal(size=2).astype(np.float32),
            success=index == 0,
        )
        for index, length in enumerate(lengths)
    ]
    return join(made, subject or {})


def write_csv(path, columns, delimiter=","):
    """Columns of equal length as text, by Python's own writer."""
    with Path(path).open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, delimiter=delimiter)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def write_tsv(path, columns):
    return write_csv(path, columns, delimiter="\t")


def arrow_table(columns):
    """Rows of an array with more than one dimension become lists."""
    import pyarrow

    found = {}
    for name, values in columns.items():
        nested = isinstance(values, np.ndarray) and values.ndim > 1
        found[name] = pyarrow.array(values.tolist() if nested else values)
    return pyarrow.table(found)


def write_parquet(path, columns, row_group_size=None):
    import pyarrow.parquet

    pyarrow.parquet.write_table(arrow_table(columns), path, row_group_size=row_group_size)
    return path


WRITERS = {"csv": write_csv, "tsv": write_tsv, "parquet": write_parquet}


def rows_of(episodes):
    """Recorded episodes as the columns of a table: x0, x1, ..., r, run, t, fell and cut."""
    steps = [len(episode.rewards) for episode in episodes]
    last = np.cumsum(steps) - 1
    fell, cut = np.zeros((2, sum(steps)), bool)
    fell[last] = [episode.terminated for episode in episodes]
    cut[last] = [episode.truncated for episode in episodes]
    observations = np.concatenate([episode.observations for episode in episodes])
    return {
        "run": [f"run {index}" for index, count in enumerate(steps) for _ in range(count)],
        "t": [step for count in steps for step in range(count)],
        **{f"x{index}": column.tolist() for index, column in enumerate(observations.T)},
        "r": np.concatenate([episode.rewards for episode in episodes]).tolist(),
        "fell": fell.tolist(),
        "cut": cut.tolist(),
    }


# --- LeRobot -------------------------------------------------------------------------------------

_OWN = {
    "timestamp": {"dtype": "float32", "shape": [1], "names": None},
    "frame_index": {"dtype": "int64", "shape": [1], "names": None},
    "episode_index": {"dtype": "int64", "shape": [1], "names": None},
    "index": {"dtype": "int64", "shape": [1], "names": None},
    "task_index": {"dtype": "int64", "shape": [1], "names": None},
}
_FPS = 10


def feature(values):
    return {"dtype": str(values.dtype), "shape": list(values.shape[1:]) or [1], "names": None}


def _arrow(values, lists):
    import pyarrow

    if values.ndim == 1:
        return pyarrow.array(values)
    inner = pyarrow.from_numpy_dtype(values.dtype)
    for size in reversed(values.shape[1:]):
        inner = pyarrow.list_(inner, size if lists == "fixed" else -1)
    return pyarrow.array(values.tolist(), inner)


def _frames(episodes, start, lists, image):
    """One Arrow table per episode, with the columns that LeRobot adds itself."""
    import pyarrow

    tables, first = [], start
    for number, episode in enumerate(episodes):
        count = len(next(iter(episode.values())))
        columns = {name: _arrow(np.asarray(values), lists) for name, values in episode.items()}
        if image is not None:
            blob = [{"bytes": b"\x89PNG", "path": f"frame-{i:06d}.png"} for i in range(count)]
            columns[image] = pyarrow.array(blob)
        columns["timestamp"] = pyarrow.array(np.arange(count, dtype=np.float32) / _FPS)
        columns["frame_index"] = pyarrow.array(np.arange(count))
        columns["episode_index"] = pyarrow.array(np.full(count, number))
        columns["index"] = pyarrow.array(np.arange(first, first + count))
        columns["task_index"] = pyarrow.array(np.zeros(count, np.int64))
        tables.append(pyarrow.table(columns))
        first += count
    return tables


def write_lerobot(
    folder, episodes, version="v2.1", *, lists="fixed", video=None, image=None, packed=2, chunk=1000
):
    """A LeRobot folder of episodes, each a dictionary of arrays by feature.

    Args:
        folder: new.
        episodes: such as ``{"observation.state": (frames, 4), "next.reward": (frames,)}``.
        version: v2.1 or v3.0.
        lists: whether arrays are lists of a fixed size or not; both are met.
        video, image: the name of a feature that is one.
        packed: episodes in a file of version 3.0.
        chunk: files in a folder.
    """
    import pyarrow
    import pyarrow.parquet as parquet

    folder = Path(folder)
    (folder / "meta").mkdir(parents=True)
    tables = _frames(episodes, 0, lists, image)
    lengths = [len(table) for table in tables]
    features = {name: feature(np.asarray(values)) for name, values in episodes[0].items()}
    shape = {"shape": [96, 96, 3], "names": ["height", "width", "channels"]}
    features |= {} if video is None else {video: {"dtype": "video", **shape}}
    features |= {} if image is None else {image: {"dtype": "image", **shape}}
    info = {
        "codebase_version": version,
        "robot_type": "so100",
        "total_episodes": len(episodes),
        "total_frames": sum(lengths),
        "total_tasks": 1,
        "chunks_size": chunk,
        "fps": _FPS,
        "splits": {"train": f"0:{len(episodes)}"},
    }
    if version == "v3.0":
        info["data_path"] = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
        info["data_files_size_in_mb"] = 100
        listed = []
        for number, start in enumerate(range(0, len(tables), packed)):
            place = (number // chunk, number % chunk)
            path = folder / f"data/chunk-{place[0]:03d}/file-{place[1]:03d}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            parquet.write_table(pyarrow.concat_tables(tables[start : start + packed]), path)
            listed += [place] * len(tables[start : start + packed])
        ends = np.cumsum(lengths).tolist()
        table = {
            "episode_index": list(range(len(episodes))),
            "tasks": [["push"]] * len(episodes),
            "length": lengths,
            "data/chunk_index": [place[0] for place in listed],
            "data/file_index": [place[1] for place in listed],
            "dataset_from_index": [0, *ends[:-1]],
            "dataset_to_index": ends,
            "stats/action/mean": [[0.0]] * len(episodes),
        }
        path = folder / "meta/episodes/chunk-000/file-000.parquet"
        path.parent.mkdir(parents=True)
        parquet.write_table(pyarrow.table(table), path)
        tasks = pyarrow.table({"task_index": [0], "__index_level_0__": ["push"]})
        parquet.write_table(tasks, folder / "meta/tasks.parquet")
    else:
        info |= {"total_videos": 0, "total_chunks": 1}
        info["data_path"] = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
        lines = []
        for number, table in enumerate(tables):
            path = folder / f"data/chunk-{number // chunk:03d}/episode_{number:06d}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            parquet.write_table(table, path)
            lines.append({"episode_index": number, "tasks": ["push"], "length": len(table)})
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / "meta/episodes.jsonl").write_text(text)
        (folder / "meta/tasks.jsonl").write_text('{"task_index": 0, "task": "push"}\n')
    info["features"] = {**features, **_OWN}
    (folder / "meta/info.json").write_text(json.dumps(info, indent=4))
    return folder


# --- Minari --------------------------------------------------------------------------------------


def write_minari(name, episodes):
    """A dataset in the local database, made by Minari itself, of recorded episodes."""
    import warnings

    import gymnasium as gym
    import minari
    from minari.data_collector import EpisodeBuffer

    buffers = []
    for index, episode in enumerate(episodes):
        last = np.arange(len(episode.rewards)) == len(episode.rewards) - 1
        buffers.append(
            EpisodeBuffer(
                id=index,
                seed=int(episode.seed) if episode.seed >= 0 else None,
                observations=np.stack([*episode.observations, episode.final_observation]),
                actions=episode.actions,
                rewards=episode.rewards,
                terminations=last & episode.terminated,
                truncations=last & episode.truncated,
            )
        )

    def box(array):
        return gym.spaces.Box(-np.inf, np.inf, array.shape[1:], np.float32)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of every optional field left out
        minari.create_dataset_from_buffers(
            name,
            buffers,
            observation_space=box(episodes.observations),
            action_space=box(episodes.actions),
        )
