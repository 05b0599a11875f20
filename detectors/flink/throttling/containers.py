"""Which process of Flink runs in a pod, and what Kubernetes and RocksDB withhold from a process or a job.

Flink names a TaskManager after its pod only on native Kubernetes. Elsewhere the log shipper's name of the pod shows
which TaskManager wrote its log, or the pod's name is that of the TaskManager's host.
"""

from detectors.events.names import OF_JOBMANAGER, filtered, short
from detectors.flink.topology import Topology
from detectors.values.durations import roughly


def tm_of_pod(topology: Topology, pod: str) -> str:
    """The id of the TaskManager in a pod; the name of the pod if neither a log nor an id shows it."""
    of_source = next((tm for source, tm in topology.tm_of_source.items() if source.partition(":")[0] == pod), "")
    named = of_source or topology.tm_of_label(pod)
    if named in topology.tms:
        return named
    here = [tm for tm, known in topology.tms.items() if known.host and short(known.host) == short(pod)]
    return here[0] if len(here) == 1 else pod


def throttled(topology: Topology, time: int, tm: str = "", job: str = "") -> str:
    """What Kubernetes withholds of its CPU from the TaskManager named, else from one that may work for the job.

    If none is throttled, it is about the JobManager, on which all of them depend. Empty if nothing is withheld.
    """
    found = topology.throttling.confirmed(time)
    if not found:
        return ""
    masters = {f"JobManager {label[len(OF_JOBMANAGER) :]}": label for label in found if label.startswith(OF_JOBMANAGER)}
    by_tm = {tm_of_pod(topology, label): label for label in found.keys() - masters.values()}
    of_job = {
        t: label for t, label in by_tm.items() if (filtered(t) == filtered(tm) if tm else topology.may_run(job, t))
    }
    own = {f"TaskManager {t}": label for t, label in of_job.items()} or masters
    if not own:
        return ""
    who = max(own, key=lambda name: (found[own[name]].share, name))
    one, others = found[own[who]], f" (and {len(own) - 1} more)" if len(own) > 1 else ""
    return (
        f"; {who}{others} has used up its CPU limit: throttled in {one.share:.0%} of its periods for "
        f"{roughly(time - one.since)}"
    )


def withheld(topology: Topology, time: int, job: str, tm: str = "") -> str:
    """What RocksDB withholds from a job's writes, and Kubernetes of the CPU of its processes, or of the one named."""
    stalls = topology.stalls.get(job)
    return (stalls.sentence(time) if stalls is not None else "") + throttled(topology, time, tm, job)
