package org.apache.hadoop.fs;

public abstract class FileSystem {
  public native java.net.URI getUri();

  public native Path makeQualified(Path path);

  public native FSDataOutputStreamBuilder createFile(Path path);

  public native FSDataInputStream open(Path path) throws java.io.IOException;
}
