"""What commands read from the topics to answer a question: the newest records, the inputs of each cluster, one incident
again. Nothing here writes to Kafka or needs Spark, and how an answer is printed is in `streaming/cli/`.
"""
