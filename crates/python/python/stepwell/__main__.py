"""The program `stepwell`, also run as `python -m stepwell`."""

from __future__ import annotations

import signal
import sys

from . import _stepwell


def main() -> None:
    """Runs the program with the command line of this process."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # The program has its own handlers; Python's would only note a signal.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_stepwell.main(["stepwell", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
