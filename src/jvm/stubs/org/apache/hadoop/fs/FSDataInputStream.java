package org.apache.hadoop.fs;

public class FSDataInputStream extends java.io.DataInputStream {
  public FSDataInputStream(java.io.InputStream in) {
    super(in);
  }
}
