"""A Kafka broker and a job as child processes, for the demo and the tests. The job itself does not use them."""
