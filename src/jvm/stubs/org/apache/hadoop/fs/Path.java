package org.apache.hadoop.fs;

public class Path {
  public native Path getParent();

  public native String getName();

  public native java.net.URI toUri();
}
