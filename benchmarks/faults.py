"""What becomes of train, collect, certify and study when they are killed, or the disk fills.

``python benchmarks/faults.py --out faults.json`` kills each command 27 times with SIGKILL: at
random moments spread over its whole duration, and before random changes of files. In turn
everything dies, or the command alone, and then its workers must notice and leave. The same command
is given again until it has finished. After every kill each artefact must be absent or whole, and in
the end all must equal what an undisturbed run leaves. Then come full disks, folders that are
read-only, and output that vanishes. Linux; disks of a given size need root, and are left out
without it.
"""

import argparse
import contextlib
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from fault_commands import COMMANDS
from fault_processes import Ended, Kill, attempt, shorten_fits

_BESIDE = re.compile(r"tightrope: warning:|train \d+/\d+")  # warnings, and a study's board
_SHARES = (0.02, 0.2, 0.45, 0.7, 0.9)  # of the room that a command needs


@dataclass
class Count:
    """What was seen of one command."""

    runs: int = 0
    kills: int = 0
    alone: int = 0  # of these: the command died and its workers did not
    writing: int = 0  # of these: before a change of a file
    resumed: int = 0
    artefacts: int = 0  # found at their names after a kill, all whole
    equal: int = 0  # runs whose results equal the undisturbed one's
    stray: int = 0
    lingered: float = 0.0  # seconds until the last worker had left, at most
    temporaries: int = 0  # left by kills
    left: int = 0  # of these after the last command
    disks: int = 0  # full, read-only, vanished: told in one line, and resumed
    problems: list[str] = field(default_factory=list)


class Disturbed:
    """One command, its undisturbed result, and what was seen."""

    def __init__(self, command, work, seed=0):
        self.command, self.work, self.rng = command, work, random.Random(seed)
        self.count = Count()
        with self.place("undisturbed") as place:
            ended = self.run(place)
            assert ended.code == 0, ended
            out = place / command.out
            command.check(out)
            self.wanted = command.content(out)
            self.events, self.seconds = ended.events, ended.seconds
            self.size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())

    @contextlib.contextmanager
    def place(self, name):
        """A new folder for the output, removed afterwards."""
        folder = self.work / f"{self.command.verb}-{name}"
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def run(self, place, kill=None, **settings) -> Ended:
        """The command, in that folder."""
        words = self.command.words(self.work, place / self.command.out)
        return attempt(words, place, self.work, kill, **settings)

    def moments(self, kills, only_events):
        """Kills spread over the whole command, in random order: by time, and by changes."""
        found = []
        for number in range(kills):
            whom = "parent" if self.rng.random() < 0.5 else "all"
            at = (number + self.rng.random()) / kills
            if number % 2 and not only_events:
                found.append(Kill(whom, seconds=at * self.seconds))
            else:
                found.append(Kill(whom, event=1 + int(at * self.events)))
        self.rng.shuffle(found)
        return found

    def kill(self, kills, per_run, only_events=False):
        """Kill that often; a run that was killed `per_run` times may finish."""
        pending, count = self.moments(kills, only_events), self.count
        while pending:
            count.runs += 1
            with self.place(f"run-{count.runs}") as place:
                died = 0
                while True:
                    kill = pending[-1] if pending and died < per_run else None
                    count.resumed += died > 0
                    ended = self.run(place, kill)
                    self.see(ended, place, kill)
                    if ended.code != -9:
                        break
                    pending.pop()
                    died += 1
                if kill is not None:  # it had finished before
                    pending[-1] = Kill(kill.whom, event=self.rng.randrange(1, self.events + 1))
                self.finished(ended, place, f"run {count.runs}")
                count.left += len(self.temporaries(place))

    def see(self, ended, place, kill):
        """After every command: nothing runs any more, and what is there is whole."""
        count = self.count
        count.stray += ended.stray
        count.lingered = max(count.lingered, ended.lingered)
        if ended.code == -9:
            count.kills += 1
            count.alone += kill.whom == "parent"
            count.writing += kill.event is not None
            count.temporaries += len(self.temporaries(place))
        try:
            count.artefacts += self.command.check(place / self.command.out)
        except Exception as error:
            count.problems.append(f"{kill}: {type(error).__name__}: {error}")

    def finished(self, ended, place, what):
        """The result is that of the undisturbed run."""
        # A command that was killed after its output had its name says that it is there already.
        there = ended.code == 2 and "already there" in ended.lines[-1]
        if ended.code != 0 and not there:
            self.count.problems.append(f"{what}: exit code {ended.code}: {ended.lines}")
            return
        try:
            found = self.command.content(place / self.command.out)
        except OSError as error:
            self.count.problems.append(f"{what}: finished, but {error}")
            return
        different = [name for name in self.wanted if found.get(name) != self.wanted[name]]
        if different or set(found) != set(self.wanted):
            self.count.problems.append(f"{what}: differs in {different or sorted(found)}")
        else:
            self.count.equal += 1

    def temporaries(self, place):
        """Hidden files and folders, outermost ones only."""
        found = [path for path in place.rglob(".*") if path.name != ".lock"]
        return [path for path in found if not any(above in found for above in path.parents)]

    # --- disks ------------------------------------------------------------------------------------

    def full_disks(self, shares=_SHARES):
        """The disk is full at different moments; then there is room."""
        for share in shares:
            with self.place(f"full-{share}") as place, disk(place, int(share * self.size) + 4096):
                ended = self.run(place)
                what = f"a disk of {share:.0%}"
                if ended.code != 0:
                    self.told(ended, place, what, ("No space left", "disk full"))
                    mount("-o", f"remount,size={4 * self.size + (1 << 24)}", place)
                    ended = self.run(place)
                self.finished(ended, place, f"{what}, then room")
                self.count.disks += 1

    def read_only(self):
        """Nothing can be written from the beginning, or when it is resumed."""
        for begun in (False, True):
            with self.place(f"read-only-{begun}") as place, disk(place, 8 * self.size + (1 << 24)):
                if begun:
                    self.run(place, Kill(event=max(self.events // 2, 1)))
                mount("-o", "remount,ro", place)
                ended = self.run(place)
                what = f"read-only {'later' if begun else 'from the beginning'}"
                self.told(ended, place, what, ("Read-only", "cannot write", "no folder to write"))
                mount("-o", "remount,rw", place)
                self.finished(self.run(place), place, f"{what}, then writable")
                self.count.disks += 1

    def vanishing(self, shares=(0.3, 0.6, 0.9)):
        """The output is moved away while it is written, by someone else."""
        for share in shares:
            with self.place(f"vanish-{share}") as place:
                event = max(int(share * self.events), 1)
                ended = self.run(place, Kill("vanish", event=event), vanishes=self.vanishes(place))
                what = f"output gone at {share:.0%}"
                if ended.code != 0:
                    self.told(
                        ended, place, what, ("gone", "cannot write", "No such file", "expected")
                    )
                if ended.code == 0:
                    self.finished(ended, place, what)
                else:
                    again = self.run(place)
                    self.finished(again, place, f"{what}, then again")
                self.count.disks += 1

    def vanishes(self, place):
        """The folder of a run; for a command that only ever writes one thing, what that is in."""
        return place / self.command.out if self.command.verb in ("train", "study") else place

    def told(self, ended, place, what, words):
        """One line, the right exit code, nothing half-written."""
        wanted = (1, 2) if self.command.verb == "study" else (2,)
        said = [line for line in ended.lines if not _BESIDE.match(line)]
        lines = len(said) == 1 if ended.code == 2 else not said
        if ended.code not in wanted or not lines:
            self.count.problems.append(f"{what}: exit code {ended.code}: {ended.lines}")
        elif ended.code == 2 and not any(word in said[0] for word in words):
            self.count.problems.append(f"{what}: unclear: {said[0]}")
        self.see(ended, place, None)


@contextlib.contextmanager
def disk(place, size):
    """A file system of that many bytes."""
    mount("-t", "tmpfs", "-o", f"size={size},mode=777", "tmpfs", place)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def mount(*words):
    """Again and again for a while where a file is still being closed."""
    deadline = time.monotonic() + 30
    while True:
        done = subprocess.run(["mount", *map(str, words)], capture_output=True, text=True)
        if done.returncode == 0:
            return
        if time.monotonic() > deadline or "busy" not in done.stderr:
            raise OSError(done.stderr.strip())
        time.sleep(0.2)


def can_mount(work):
    """Whether disks of a given size can be had here."""
    (work / "try").mkdir()
    try:
        with disk(work / "try", 1 << 16):
            return True
    except (OSError, subprocess.CalledProcessError):  # of mounting, of unmounting
        return False


def load_libraries(commands):
    """What the commands import, once."""
    import tightrope.cli.episodes
    import tightrope.rollouts.collecting

    if commands == ["collect"]:  # needs no torch
        return
    import torch
    import torch.utils.tensorboard.writer

    import tightrope.agents
    import tightrope.certificates.certify
    import tightrope.cli.certificates
    import tightrope.cli.research
    import tightrope.reports
    import tightrope.studies.results  # noqa: F401

    torch.set_num_threads(1)
    shorten_fits()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commands", nargs="*", default=list(COMMANDS))
    parser.add_argument("--kills", type=int, default=27, help="of each command")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--per-run", type=int, default=4, help="kills until a run may finish")
    parser.add_argument("--only-events", action="store_true", help="kill at changes of files")
    parser.add_argument("--policy", type=Path, help="folder, in place of one trained here")
    parser.add_argument("--disks", choices=["too", "none", "only"], default="too")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    load_libraries(given.commands)
    counts = {}
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        disks = given.disks != "none" and can_mount(work)
        if not disks:
            print("no full and read-only disks: mounting is not possible here, or not asked for")
        needed = {name for each in given.commands for name in COMMANDS[each].needs}
        if given.policy:
            shutil.copytree(given.policy, work / "run" / "expert")
        elif needed and attempt(COMMANDS["train"].words(work, work / "run"), work, work).code:
            sys.exit("cannot train the policy that is rolled out")
        for name in given.commands:
            disturbed = Disturbed(COMMANDS[name], work, given.seed)
            if given.disks != "only":
                disturbed.kill(given.kills, given.per_run, given.only_events)
            if given.disks != "none":
                disturbed.vanishing()
            if disks:
                disturbed.full_disks()
                disturbed.read_only()
            counts[name] = asdict(disturbed.count)
            print(name, json.dumps(counts[name], indent=1), flush=True)
            if given.out:
                given.out.write_text(json.dumps(counts, indent=1) + "\n")
    return 1 if any(count["problems"] or count["stray"] for count in counts.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
