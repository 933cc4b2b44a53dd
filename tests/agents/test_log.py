"""The log of a run on a disk that fills up."""

import shutil
import warnings

from tightrope.agents.log import Log, read_log


class Full:
    """A stream on a full disk; what it is given it keeps."""

    def __init__(self, stream):
        self.stream, self.full = stream, False

    def write(self, text):
        return self.stream.write(text)

    def flush(self):
        if self.full:
            raise OSError(28, "No space left on device")
        self.stream.flush()

    def close(self):
        self.stream.close()


def test_a_full_disk_is_told_once_and_rows_come_when_there_is_room(tmp_path):
    log = Log(tmp_path, resume_at=0)
    log._stream = Full(log._stream)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(1, 9):
            log._stream.full = 2 <= step <= 5
            log.add({"step": step, "episodes": step})
    log.close()
    assert [str(each.message) for each in caught] == [
        "no row in the log from step 2 until there is room: No space left on device"
    ]
    assert [row["step"] for row in read_log(tmp_path / "log.csv")] == list(range(1, 9))


def test_tensorboards_thread_may_die_without_a_word_and_the_log_goes_on(tmp_path, capfd):
    log = Log(tmp_path, resume_at=0)
    log.add({"step": 1, "episodes": 1})
    shutil.rmtree(tmp_path / "tensorboard")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(2, 12):
            log.add({"step": step, "episodes": step})
    log.close()
    assert len(caught) == 1
    assert "nothing for TensorBoard from step" in str(caught[0].message)
    assert capfd.readouterr().err == ""
    assert [row["step"] for row in read_log(tmp_path / "log.csv")] == list(range(1, 12))
