"""Log lines about the end or loss of JobManagers, and about leader election with ZooKeeper or Kubernetes.

Lines of the libraries Curator and fabric8 are included. `Authentication failed` and SASL or JAAS lines are ignored,
because they are logged at every connection to ZooKeeper.
"""

from detectors.events.vocabulary.pattern import JOB, LogPattern, N

_RPC = r"(?:akka|pekko)(?:\.ssl)?\.tcp://flink@(?P<address>[^/\]\s]+)"


PATTERNS: tuple[LogPattern, ...] = (
    # The JobManager itself
    LogPattern("jm_fatal", "Fatal error occurred in the cluster entrypoint", throws=True),
    LogPattern("jm_fatal", "Fatal error occurred in ResourceManager", throws=True),
    LogPattern("jm_fatal", "Fatal error occurred on JobManager", throws=True),
    LogPattern(
        "leader_granted",
        rf"(?:ResourceManager|Dispatcher) (?:{_RPC}\S*|\S+) was granted leadership",
        anchor="was granted leadership with fencing token",
        until="1.13",
    ),
    LogPattern("leader_granted", "Resource manager service is granted leadership", since="1.14"),
    LogPattern("leader_granted", "DefaultDispatcherRunner was granted leadership", since="1.13"),
    # A job's leadership is also revoked when the job ends. Only the process's own leadership shows a loss.
    LogPattern(
        "leader_revoked",
        r"ResourceManager \S+ was revoked leadership\.",
        anchor="was revoked leadership. Clearing fencing token",
        until="1.13",
    ),
    LogPattern("leader_revoked", "Resource manager service is revoked leadership", since="1.14"),
    LogPattern("leader_revoked", r"Dispatcher \S+ was revoked leadership", anchor="Dispatcher akka", until="1.10"),
    LogPattern("leader_revoked", "DefaultDispatcherRunner was revoked the leadership", since="1.13"),
    # From JobManagers and TaskManagers; the actor system for metrics logs a different line
    LogPattern("rpc_started", rf"Actor system started at {_RPC}", since="1.5"),
    # The JobManager, as a TaskManager sees it
    LogPattern("jm_address", rf"Successful registration at resource manager {_RPC}"),
    LogPattern(
        "jm_timed_out",
        r"The heartbeat of (?P<peer>JobManager) with id \S+ +timed out",
        anchor="heartbeat of JobManager with id ",
    ),
    LogPattern(
        "jm_timed_out",
        r"The heartbeat of (?P<peer>ResourceManager) with id \S+ +timed out",
        anchor="heartbeat of ResourceManager with id ",
    ),
    LogPattern(
        "jm_unreachable",
        r"(?P<peer>JobManager) with id \S+ is no longer reachable",
        anchor="is no longer reachable",
        since="1.14",
    ),
    LogPattern(
        "jm_unreachable",
        r"(?P<peer>ResourceManager) with id \S+ is no longer reachable",
        anchor="is no longer reachable",
        since="1.14",
    ),
    LogPattern(
        "jm_leader_lost", rf"JobManager for job {JOB} with leader id \S+ lost leadership\.", anchor="lost leadership."
    ),
    LogPattern("jm_unresolved", rf"Could not resolve ResourceManager address {_RPC}"),
    LogPattern("jm_closed", rf"Close JobManager connection for job {JOB}"),
    # The JobMaster's line has a colon and a reason at the end.
    LogPattern("jm_closed", r"Close ResourceManager connection [0-9a-f]+\."),
    LogPattern("jm_silent", rf"Ask timed out on \[Actor\[{_RPC}/user/(?:rpc/)?job", anywhere=True),
    LogPattern(
        "registration_timed_out",
        r"Could not register at the ResourceManager within the specified maximum registration duration"
        rf" (?P<duration>PT[0-9A-Z]+(?:\.\d+S)?|{N}(?: ?ms\b)?)",
        anywhere=True,
    ),
    # ZooKeeper: Flink's election and retrieval of leaders, and the Curator client under both
    LogPattern("ha_suspended", "State change: SUSPENDED"),
    LogPattern("ha_suspended", "Connection to ZooKeeper suspended"),
    LogPattern("ha_lost", "State change: LOST"),
    LogPattern("ha_lost", "Connection to ZooKeeper lost"),
    LogPattern("ha_connected", "State change: CONNECTED"),
    LogPattern("ha_connected", "State change: RECONNECTED"),
    LogPattern("ha_connected", "Connection to ZooKeeper was reconnected"),
    LogPattern("ha_gave_up", "Background operation retry gave up"),
    LogPattern("ha_gave_up", "Background retry gave up"),
    LogPattern("ha_gave_up", "Ensure path threw exception"),
    # Kubernetes
    LogPattern("ha_lock_failed", "Exception occurred while renewing lock"),
    # Timeouts in force, from which forecasts are made
    LogPattern(
        "ha_session",
        rf"Session establishment complete .*negotiated timeout = (?P<session>{N})",
        anchor="negotiated timeout = ",
    ),
)
