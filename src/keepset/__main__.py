"""Runs the command line: ``keepset``, or ``python -m keepset``."""

import signal
import sys
from types import FrameType


def run() -> None:
    """Control-C ends any command quietly with the code shells expect, also while a library is still being imported:
    some of them turn the interruption into errors of their own."""
    interrupted = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    try:
        from keepset.cli import main

        main()
    except BaseException:
        if interrupted:
            sys.exit(128 + signal.SIGINT)
        raise


if __name__ == "__main__":
    run()
