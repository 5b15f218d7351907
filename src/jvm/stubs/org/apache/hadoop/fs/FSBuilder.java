package org.apache.hadoop.fs;

public interface FSBuilder {
  FSBuilder must(String key, String value);

  FSBuilder opt(String key, String value);
}
