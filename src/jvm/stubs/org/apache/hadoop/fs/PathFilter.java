package org.apache.hadoop.fs;

public interface PathFilter {}
