"""A run and the brokers of its Kafka sources, in the background.

Imports `reports`, `ports` and the layers below the runtime. Never on the path of a batch, a checkpoint or a stop; what
brokers answer decides nothing here.
"""
