package org.apache.spark.sql.execution.streaming.checkpointing;

import java.io.IOException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;

public class FileSystemBasedCheckpointFileManager {
  public FileSystemBasedCheckpointFileManager(Path path, org.apache.hadoop.conf.Configuration configuration) {}

  public native FileSystem fs();

  public native CheckpointFileManager.CancellableFSDataOutputStream createAtomic(
      Path path, boolean overwriteIfPossible);

  public native FileStatus[] list(Path path, PathFilter filter) throws IOException;

  public native void mkdirs(Path path);

  public native Path createCheckpointDirectory();
}
