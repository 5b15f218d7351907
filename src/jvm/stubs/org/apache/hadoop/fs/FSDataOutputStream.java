package org.apache.hadoop.fs;

public class FSDataOutputStream extends java.io.DataOutputStream {
  public FSDataOutputStream(java.io.OutputStream out) {
    super(out);
  }

  public native Abortable.AbortableResult abort();
}
