"""`flinkwatch` and `python -m streaming`: the only place that ends the process."""

import sys

from sinks.secret import SecretError
from streaming.cli import cli
from streaming.errors import UserError
from streaming.terminal import echo


def main() -> None:
    """Run the command line; an error that a user can mend is one line or a few, without a traceback."""
    try:
        cli(standalone_mode=True)
    except (UserError, SecretError) as error:
        for line in str(error).splitlines():
            echo(f"flinkwatch: {line}", error=True)
        sys.exit(error.exit_status if isinstance(error, UserError) else 1)


if __name__ == "__main__":
    main()
