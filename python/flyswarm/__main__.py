"""The program `flyswarm`, also as `python -m flyswarm`."""

import signal
import sys
from typing import NoReturn

from flyswarm import _flyswarm


def main() -> NoReturn:
    """Runs the program `flyswarm` with the arguments of this process, and ends the process."""
    # The program handles Ctrl-C itself.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_flyswarm.main(["flyswarm", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
