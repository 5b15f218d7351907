"""What a query reads from outside: where its Kafka sources are, and what their brokers still have.

Imports `checkpoint` and what is below it. Pure but for `kafka_client`, which alone asks brokers. Must never decide
where a job resumes: brokers are only asked whether they still have what a checkpoint needs, and told how far it is.
"""
