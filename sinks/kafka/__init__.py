"""Everything about reaching Kafka: settings (`access`), `clients`, `reading` topics to their end and following them,
flinkwatch's own `topics`, and the `diagnosis` of why Kafka does not answer.

No other folder makes a Kafka client. Nothing here knows a receiver, an incident or Spark.
"""
