package org.apache.spark.sql.execution.streaming.checkpointing;

public interface CheckpointFileManager {
  abstract class CancellableFSDataOutputStream extends org.apache.hadoop.fs.FSDataOutputStream {
    public CancellableFSDataOutputStream(java.io.OutputStream out) {
      super(out);
    }

    public abstract void cancel();
  }
}
