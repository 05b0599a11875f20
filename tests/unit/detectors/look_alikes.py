"""The healthy situations that look most like each kind, and that must stay silent.

A name is a scenario whose truth is empty, or a test of the kind's own file.
"""

LOOK_ALIKES: dict[str, tuple[str, ...]] = {
    "backpressure": (
        "test_a_slow_operator_behind_which_checkpoints_stay_fast_is_not_worth_a_warning",
        "test_a_job_that_catches_up_after_a_restart_is_not_warned_of",
        "healthy-look-alikes-2.2.1",
    ),
    "broker_unreachable": (
        "test_an_only_broker_that_is_restarted_and_back_within_twenty_seconds_is_nothing",
        "test_brokers_that_are_restarted_one_by_one_are_nothing_while_clients_have_others",
        "healthy-look-alikes-1.20.5",
        "healthy-look-alikes-2.2.1",
    ),
    "checkpoint_duration_creep": (
        "test_what_only_looks_like_a_creep_is_not_reported",
        "test_durations_that_grow_with_the_input_are_load",
        "checkpoint-noisy-healthy",
        "plateau-healthy",
    ),
    "checkpoint_failing": (
        "test_what_a_start_a_restart_or_an_end_takes_with_it_does_not_count",
        "test_savepoints_do_not_count",
    ),
    "checkpoint_overdue": (
        "test_a_checkpoint_twice_as_slow_as_usual_and_a_savepoint_of_five_minutes_are_healthy",
        "healthy-retries-1.20.5",
    ),
    "clock_skew": (
        "test_lines_that_are_shipped_late_report_nothing_of_a_clock",
        "test_a_few_lines_or_a_small_lead_are_nothing",
        "clock-skew-two-minutes",
    ),
    "direct_memory_exhaustion": ("test_an_application_that_quotes_the_error_and_tries_again_is_healthy",),
    "disk_full": (
        "test_other_failures_and_a_file_system_without_datanodes_are_not_this",
        "test_taskmanagers_that_leave_for_other_reasons_are_not_this",
    ),
    "ha_connection_lost": (
        "test_a_connection_that_is_back_within_seconds_is_none",
        "test_what_is_stopped_loses_its_connection_without_an_incident",
    ),
    "heap_exhaustion": (
        "test_it_is_no_exhaustion",
        "test_a_jobmanager_that_is_nearly_full_between_two_collections_is_healthy",
        "heap-state-growth",
        "healthy-retries-1.20.5",
    ),
    "job_failed": (
        "test_other_ends_are_no_failure",
        "test_a_job_that_fails_because_its_cluster_is_stopped_is_no_failure",
    ),
    "job_missing": (
        "test_a_job_that_is_stopped_with_a_savepoint_and_rescaled_is_planned",
        "test_a_job_that_is_cancelled_and_submitted_again_is_planned",
        "test_a_job_that_needs_a_while_to_begin_is_healthy",
        "healthy-steady",
    ),
    "jobmanager_lost": (
        "test_an_orderly_stop_is_no_loss_even_when_its_line_comes_late",
        "test_a_rolling_upgrade_with_a_standby_is_no_loss",
        "test_a_frozen_taskmanager_blames_a_jobmanager_that_goes_on",
    ),
    "lag_growing": (
        "test_a_restart_whose_backlog_is_read_is_nothing",
        "test_a_saw_tooth_is_nothing",
        "test_a_batch_that_is_written_once_an_hour_and_read_for_minutes_is_nothing",
        "healthy-look-alikes-2.2.1",
    ),
    "late_barrier_acks": (
        "test_an_acknowledgement_of_a_checkpoint_that_did_not_expire_is_nothing",
        "savepoint-amid-quick-checkpoints",
    ),
    "late_records_dropped": (
        "test_single_late_records_are_nothing",
        "test_one_burst_of_late_records_is_nothing",
        "healthy-look-alikes-2.2.1",
    ),
    "memory_limit_kill": (
        "test_memory_that_is_high_and_does_not_rise_is_healthy",
        "containers-at-their-limits-healthy",
    ),
    "metaspace_exhaustion": ("test_other_courses_of_metaspace_are_healthy",),
    "network_buffers_exhausted": ("test_tasks_whose_buffers_are_all_in_use_are_healthy",),
    "node_lost": ("test_a_node_that_is_decommissioned_or_shut_down_is_healthy",),
    "operator_failing": (
        "test_an_ordinary_upgrade_is_healthy",
        "test_a_pod_that_waits_minutes_for_a_node_is_healthy",
        "test_a_registry_that_hiccups_and_a_quota_that_old_pods_still_use_are_healthy",
    ),
    "platform_incident": (
        "test_clusters_with_trouble_of_their_own_at_the_same_time",
        "test_a_cluster_whose_trouble_ended_before_the_other_cluster_had_it",
    ),
    "restart_loop": (
        "test_restarts_that_are_only_consequences_are_no_loop",
        "test_a_cancel_and_a_rescale_of_the_adaptive_scheduler_are_none",
        "rolling-restart-without-spare-slots",
    ),
    "restore_failed": (
        "test_a_job_that_restarts_empty_before_its_first_checkpoint_has_lost_nothing",
        "test_a_job_that_is_submitted_anew_or_after_its_end_begins_empty_by_right",
    ),
    "savepoint_failed": (
        "test_a_savepoint_that_completes_is_healthy",
        "test_a_healthy_stop_with_savepoint_may_fail_to_trigger_a_checkpoint_without_a_number",
        "healthy-steady",
    ),
    "sink_data_lost": (
        "test_a_burst_of_errors_is_not_this",
        "test_records_that_are_tried_again_now_and_then_are_not_this",
        "healthy-retries-1.20.5",
    ),
    "slots_unavailable": (
        "test_a_job_that_waits_for_its_taskmanagers_at_start_is_healthy",
        "rolling-restart-without-spare-slots",
    ),
    "task_stuck": (
        "test_a_slow_task_that_moves_every_forty_seconds_is_not_stuck",
        "test_a_source_that_polls_a_quiet_topic_is_busy_and_not_stuck",
        "test_a_window_that_emits_for_minutes_into_its_own_sink_is_not_stuck",
        "healthy-look-alikes-2.2.1",
    ),
    "taskmanager_lost": (
        "test_a_goodbye_is_no_loss",
        "test_the_end_of_the_cluster_is_no_loss",
        "taskmanager-stopped",
        "taskmanager-stopped-late-goodbye",
    ),
    "telemetry_lost": (
        "test_a_taskmanager_whose_end_is_reported_is_not_silent",
        "test_a_source_that_is_scraped_rarely_is_given_the_time",
        "test_what_was_never_regular_is_never_silent",
    ),
    "thread_exhaustion": ("test_other_courses_are_healthy",),
    "transaction_timeout": ("test_a_fenced_transaction_in_a_recovery_is_expected_by_connector_4",),
    "unread_records_lost": ("test_reading_up_to_the_end_without_a_gap_is_nothing",),
    "watermark_stalled": (
        "test_a_quiet_night_is_no_stall",
        "test_timestamps_that_are_rounded_to_the_hour_are_no_stall_after_a_backlog",
        "test_a_restart_is_no_stall_while_the_job_catches_up",
        "healthy-look-alikes-1.20.5",
    ),
    "zero_input_leak": (
        "test_a_quiet_night_after_records_have_been_read_is_no_leak",
        "test_a_heap_that_fills_up_after_a_start_and_levels_off_is_none",
        "quiet-topic-healthy",
        "zero-input-fixed",
    ),
}
