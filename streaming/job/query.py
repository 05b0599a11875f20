"""The whole job on one screen: source → read → watch → emit."""

import json

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from sinks.kafka.access import spark_options
from sinks.kafka.topic_limits import largest_record
from streaming.configuration.known_issues import IssueFile, read_files
from streaming.configuration.settings import Settings
from streaming.job.checkpoint.rebuild_plan import NO_PLAN, RebuildPlan, read_plan
from streaming.job.outlet import MAX_ROW_BYTES
from streaming.job.read import SELECTION, ReadStage
from streaming.job.rows import EMIT_SCHEMA, READ_SCHEMA
from streaming.job.watch import BucketProcessor, OutputTopics

QUERY_NAME = "flinkwatch"


def start_query(
    spark: SparkSession, settings: Settings, starting_offsets: dict[str, dict[str, int]], full_at: int | None = None
) -> StreamingQuery:
    """Start the query.

    `starting_offsets` (topic → partition → offset, −1 latest, −2 earliest) apply only without a checkpoint. `full_at`
    is the limit with which the unfinished batch in the checkpoint may have been planned, if not with the setting.
    """
    topics = settings.kafka.topics
    names = topics.incidents, topics.readings, topics.rejected
    outputs = OutputTopics(*names, limit=min(MAX_ROW_BYTES, largest_record(settings.kafka.access, names)))
    plan = read_plan(settings.streaming.checkpoint)
    records = source(spark, settings, plan.starting_offsets(starting_offsets))
    limit = full_at or settings.streaming.max_offsets_per_trigger
    rows = watch(read(records, settings), outputs, plan, limit, read_files(settings.known_issues.files))
    return emit(rows, settings)


def source(spark: SparkSession, settings: Settings, starting_offsets: dict[str, dict[str, int]]) -> DataFrame:
    """Read the records of all input topics: logs, metrics, the configuration and the heartbeat."""
    records = (
        spark.readStream.format("kafka")
        .options(**spark_options(settings.kafka.access))
        .option("subscribe", ",".join(input_topics(settings)))
        .option("startingOffsets", json.dumps(starting_offsets))
        .option("maxOffsetsPerTrigger", settings.streaming.max_offsets_per_trigger)
        .option("includeHeaders", "true")
        # Each task requests the end of its partition on a connection on which the broker still holds back a fetch until
        # records arrive, by default for 500 ms of every batch. Tasks read existing records only, so none needs to wait.
        .option("kafka.fetch.max.wait.ms", "10")
        .option("failOnDataLoss", "false")
        .load()
    )
    columns = [f"{expression} AS {name}" for name, expression in SELECTION.items()]
    # Few tasks, because each costs a Python worker about 15 ms per batch, even without records.
    return records.selectExpr(*columns).coalesce(settings.streaming.shuffle_partitions)


def read(records: DataFrame, settings: Settings) -> DataFrame:
    """First stage: decode bytes into events, packed into one row per task and bucket."""
    kafka = settings.kafka
    stage = ReadStage(
        settings.identity, kafka.metrics, kafka.topics.config, kafka.topics.heartbeat, settings.streaming.buckets
    )
    return records.mapInArrow(stage.run, READ_SCHEMA)


def watch(
    packed: DataFrame,
    outputs: OutputTopics,
    plan: RebuildPlan = NO_PLAN,
    max_offsets: int = 1 << 62,
    issues: tuple[IssueFile, ...] = (),
) -> DataFrame:
    """Second stage: turn events into transitions, readings and dead letters, with the state of every cluster.

    `max_offsets` is the maximum number of offsets that a batch reads from the source, `issues` are the site's files.
    """
    return packed.groupBy("bucket").transformWithState(
        BucketProcessor(outputs, plan, max_offsets, issues), EMIT_SCHEMA, outputMode="Update", timeMode="None"
    )


def emit(rows: DataFrame, settings: Settings) -> StreamingQuery:
    """Write the rows to Kafka. Delivery reads them from there, so that it cannot delay the stream."""
    return outbox(rows, settings).trigger(processingTime=f"{settings.streaming.trigger} milliseconds").start()


def outbox(rows: DataFrame, settings: Settings) -> DataStreamWriter:
    """The writer of the rows without a trigger, since the benchmarks set their own."""
    return (
        rows.select(col("topic"), col("key"), col("value"))
        .writeStream.format("kafka")
        .queryName(QUERY_NAME)
        .options(**spark_options(settings.kafka.access))
        # No row is larger than MAX_ROW_BYTES, but the client adds an upper bound for the headers of a batch.
        .option("kafka.max.request.size", 2 * MAX_ROW_BYTES)
        .option("checkpointLocation", settings.streaming.checkpoint)
        .outputMode("update")
    )


def input_topics(settings: Settings) -> tuple[str, ...]:
    kafka = settings.kafka
    return (*kafka.logs, *kafka.metrics, kafka.topics.config, kafka.topics.heartbeat)
