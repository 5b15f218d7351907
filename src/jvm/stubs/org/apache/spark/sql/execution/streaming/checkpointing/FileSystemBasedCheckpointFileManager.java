package org.apache.spark.sql.execution.streaming.checkpointing;

public class FileSystemBasedCheckpointFileManager {
  public FileSystemBasedCheckpointFileManager(
      org.apache.hadoop.fs.Path path, org.apache.hadoop.conf.Configuration configuration) {}

  public native CheckpointFileManager.CancellableFSDataOutputStream createAtomic(
      org.apache.hadoop.fs.Path path, boolean overwriteIfPossible);
}
