"""The image's HEALTHCHECK: whether the page answers. FLINKWATCH_HEALTH_URL sets another page, such as /-/ready."""

import os
import sys
import urllib.error
import urllib.request

URL = os.environ.get("FLINKWATCH_HEALTH_URL", "http://127.0.0.1:9108/-/healthy")

try:
    # Bypasses a proxy from the environment, which is meant for Slack.
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(URL, timeout=4) as answer:
        sys.stdout.write(answer.read().decode(errors="replace"))
except urllib.error.HTTPError as error:
    sys.exit(error.read().decode(errors="replace"))
except OSError as error:
    sys.exit(f"{URL}: {error}")
