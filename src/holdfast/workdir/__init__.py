"""Spark's checkpoint directory, wherever it is: one protocol (`interface`), one implementation per kind of place
(`mounted`, `hdfs`, `object_place`), one factory. Differences are named abilities; callers never ask which kind a
directory is.

May import storage, checkpoint and what is below; never repository, sinks or Spark. Holds no credentials and decides
nothing about checkpoints. A new kind of place must pass `holdfast.testing.workdirs.WorkDirectoryConformance`.
"""
