"""A run and the brokers of its Kafka sources, in the background.

Never on the path of a batch, a checkpoint or a stop; what brokers answer decides nothing here.
"""
