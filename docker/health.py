"""The image's HEALTHCHECK: does the page answer? FLINKWATCH_HEALTH_URL names another page, such as /-/ready."""

import os
import sys
import urllib.error
import urllib.request

URL = os.environ.get("FLINKWATCH_HEALTH_URL", "http://127.0.0.1:9108/-/healthy")

try:
    with urllib.request.urlopen(URL, timeout=4) as answer:  # noqa: S310 - an address of whoever runs the container
        sys.stdout.write(answer.read().decode(errors="replace"))
except urllib.error.HTTPError as error:
    sys.exit(error.read().decode(errors="replace"))
except OSError as error:
    sys.exit(f"{URL}: {error}")
