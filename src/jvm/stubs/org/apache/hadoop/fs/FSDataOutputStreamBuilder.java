package org.apache.hadoop.fs;

public abstract class FSDataOutputStreamBuilder implements FSBuilder {
  public native FSDataOutputStreamBuilder overwrite(boolean overwrite);

  public native FSDataOutputStreamBuilder recursive();

  public abstract FSDataOutputStream build() throws java.io.IOException;
}
