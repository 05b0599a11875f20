"""How Kafka is reached: access, clients, flinkwatch's topics, and why it does not answer.

The bottom of this package: nothing here knows a receiver, an incident or Spark.
"""
