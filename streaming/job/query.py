"""The whole job on one screen: source → read → watch → emit."""

import json

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from sinks.kafka.access import spark_options
from sinks.kafka.topic_limits import largest_record
from streaming.configuration.settings import Settings
from streaming.job.checkpoint.rebuilt import NOT_REBUILT, RebuildPlan, rebuilt_in
from streaming.job.outlet import MAX_ROW_BYTES
from streaming.job.read import SELECTION, ReadStage
from streaming.job.rows import EMIT_SCHEMA, READ_SCHEMA
from streaming.job.watch import BucketProcessor, OutputTopics

QUERY_NAME = "flinkwatch"


def start_query(spark: SparkSession, settings: Settings, starting_offsets: dict[str, dict[str, int]]) -> StreamingQuery:
    """Start the query.

    `starting_offsets` (topic → partition → offset, −1 latest, −2 earliest) count without a checkpoint only.
    """
    topics = settings.kafka.topics
    names = topics.incidents, topics.readings, topics.rejected
    outputs = OutputTopics(*names, limit=min(MAX_ROW_BYTES, largest_record(settings.kafka.access, names)))
    rebuilt = rebuilt_in(settings.streaming.checkpoint)
    records = source(spark, settings, {**starting_offsets, **rebuilt.offsets})
    said = watch(read(records, settings), outputs, rebuilt, settings.streaming.max_offsets_per_trigger)
    return emit(said, settings)


def source(spark: SparkSession, settings: Settings, starting_offsets: dict[str, dict[str, int]]) -> DataFrame:
    """Records of all input topics: logs, metrics, the configuration, and the heartbeat that moves the clock when
    nothing else comes.
    """
    records = (
        spark.readStream.format("kafka")
        .options(**spark_options(settings.kafka.access))
        .option("subscribe", ",".join(input_topics(settings)))
        .option("startingOffsets", json.dumps(starting_offsets))
        .option("maxOffsetsPerTrigger", settings.streaming.max_offsets_per_trigger)
        .option("includeHeaders", "true")
        # Each task asks for the ends of its partition on a connection whose next fetch the broker is still holding back
        # for want of records: by default for 500 ms of every batch. Tasks only read what is there, so none need wait.
        .option("kafka.fetch.max.wait.ms", "10")
        .option("failOnDataLoss", "false")
        .load()
    )
    columns = [f"{expression} AS {name}" for name, expression in SELECTION.items()]
    # Few tasks: each costs a Python worker about 15 ms a batch, whatever it reads.
    return records.selectExpr(*columns).coalesce(settings.streaming.shuffle_partitions)


def read(records: DataFrame, settings: Settings) -> DataFrame:
    """Bytes → events, packed: one row per task and bucket."""
    kafka = settings.kafka
    stage = ReadStage(
        settings.identity, kafka.metrics, kafka.topics.config, kafka.topics.heartbeat, settings.streaming.buckets
    )
    return records.mapInArrow(stage.run, READ_SCHEMA)


def watch(
    packed: DataFrame, outputs: OutputTopics, rebuilt: RebuildPlan = NOT_REBUILT, max_offsets: int = 1 << 62
) -> DataFrame:
    """Events → transitions, readings, dead letters, with the state of every cluster; `max_offsets` are the most that a
    batch takes from the source.
    """
    return packed.groupBy("bucket").transformWithState(
        BucketProcessor(outputs, rebuilt, max_offsets), EMIT_SCHEMA, outputMode="Update", timeMode="None"
    )


def emit(said: DataFrame, settings: Settings) -> StreamingQuery:
    """Kafka is the outbox: nothing that delivers can hold the stream."""
    return outbox(said, settings).trigger(processingTime=f"{settings.streaming.trigger} milliseconds").start()


def outbox(said: DataFrame, settings: Settings) -> DataStreamWriter:
    """The writer of what is said, without a trigger: the benchmarks have their own."""
    return (
        said.select(col("topic"), col("key"), col("value"))
        .writeStream.format("kafka")
        .queryName(QUERY_NAME)
        .options(**spark_options(settings.kafka.access))
        # No row is larger than MAX_ROW_BYTES; the client counts a batch's headers as well, and guesses high.
        .option("kafka.max.request.size", 2 * MAX_ROW_BYTES)
        .option("checkpointLocation", settings.streaming.checkpoint)
        .outputMode("update")
    )


def input_topics(settings: Settings) -> tuple[str, ...]:
    """Every topic the query reads."""
    kafka = settings.kafka
    return (*kafka.logs, *kafka.metrics, kafka.topics.config, kafka.topics.heartbeat)
