"""`flinkwatch` and `python -m streaming`: the only place that ends the process."""

import signal
import sys

# Until a command starts there is nothing to clean up: Ctrl-C during the imports must not print a traceback.
_handler = signal.signal(signal.SIGINT, signal.SIG_DFL)

from sinks.secret import SecretError  # noqa: E402
from streaming.cli.main import cli  # noqa: E402
from streaming.errors import UserError  # noqa: E402
from streaming.terminal import echo  # noqa: E402

signal.signal(signal.SIGINT, _handler)


def main() -> None:
    """Run the command line. An error that the user can fix is printed in one or a few lines, without a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        cli(standalone_mode=True)
    except (UserError, SecretError) as error:
        for line in str(error).splitlines():
            echo(f"flinkwatch: {line}", error=True)
        sys.exit(error.exit_status if isinstance(error, UserError) else 1)


if __name__ == "__main__":
    main()
