"""Spark's checkpoint directory, wherever it is: one protocol (`interface`), one implementation per kind of place
(`mounted`, `hdfs`), one factory. What differs is an ability with a name; nobody asks which kind a directory is.

May import storage, checkpoint and what is below; never repository, sinks or Spark. Holds no credentials, decides no
checkpoint. Whoever adds a kind of place subclasses `holdfast.testing.workdirs.WorkDirectoryConformance`.
"""
