"""A checkpoint that was copied while the job stood still, lost later, and put back: what `docs/operations.md` says."""

import shutil
from collections.abc import Callable

import pytest

from tests.e2e.conftest import installation as installation  # noqa: PLC0414 - a fixture
from tests.e2e.harness import Installation
from tests.reliability.job_chain import JobChain
from tests.reliability.test_kill_job import judge

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1_800)]


def a_life(chain: JobChain) -> None:
    """The job says what the next portion brings, and ends in order."""
    # Several lives, and a machine that may be busy.
    chain.finish()
    chain.kills += 1


def test_an_older_checkpoint_that_is_put_back_says_the_same_again_and_then_goes_on(
    installation: Callable[..., Installation],
) -> None:
    """What was said since the copy stands in Kafka twice, alike: the same incidents and numbers as in a replay."""
    chain = JobChain(installation)
    checkpoint, copy = chain.here.folder / "checkpoint", chain.here.folder / "copy"
    a_life(chain)
    shutil.copytree(checkpoint, copy)
    a_life(chain)
    shutil.rmtree(checkpoint)
    copy.rename(checkpoint)
    a_life(chain)
    written = judge(chain)
    assert set(written.values()) == {1, 2}


def test_a_new_checkpoint_from_the_earliest_offsets_says_the_same_again(
    installation: Callable[..., Installation],
) -> None:
    """`streaming.starting_offsets: earliest` and complete topics: nothing is forgotten, nothing is said otherwise."""
    chain = JobChain(installation)
    a_life(chain)
    a_life(chain)
    shutil.rmtree(chain.here.folder / "checkpoint")
    a_life(chain)
    assert set(judge(chain).values()) == {1, 2}
