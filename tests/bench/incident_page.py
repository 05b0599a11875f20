"""How long the page of an incident takes, and how large it is: `python tests/bench/incident_page.py`.

CPU time, the best of five; every finding has a chart of 64 points and five records of evidence.
"""

import time

from sinks.web.incident_page import render_incident
from tests.unit.sinks.web.page_samples import many

GOAL_S, GOAL_BYTES = 1.0, 1_500_000
CASES = [(1, 1), (10, 4), (60, 4), (60, 20), (500, 20)]


def main() -> None:
    render_incident(many(1, 1))
    for changes, findings in CASES:
        incident = many(changes, findings)
        taken = []
        for _ in range(5):
            begun = time.process_time()
            html = render_incident(incident)
            taken.append(time.process_time() - begun)
        size = len(html.encode()) / 1000
        print(f"{changes:>4} changes, {findings:>2} findings: {min(taken) * 1000:>4.0f} ms, {size:>4.0f} kB")
    print(f"goal for 60 changes: {GOAL_S * 1000:.0f} ms, {GOAL_BYTES / 1000:.0f} kB")


if __name__ == "__main__":
    main()
