"""Ctrl-C while a directory is followed: it is noted, and nothing is torn apart by an exception."""

import os
import signal

from holdfast.cli.reading_logs import interrupted
from tests.patience import PATIENCE


def test_ctrl_c_is_noted_without_an_exception() -> None:
    usual = signal.getsignal(signal.SIGINT)
    with interrupted() as asked:
        assert not asked.is_set()
        os.kill(os.getpid(), signal.SIGINT)
        assert asked.wait(PATIENCE)
    assert signal.getsignal(signal.SIGINT) is usual
