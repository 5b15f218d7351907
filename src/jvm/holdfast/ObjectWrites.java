package holdfast;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream;

/** Files on S3 that appear whole by one PUT: nothing is written under another name and renamed. */
final class ObjectWrites {
  private ObjectWrites() {}

  static boolean areFor(FileSystem files) {
    return "s3a".equals(files.getUri().getScheme());
  }

  /** Whatever has the name is replaced, without a look at it. */
  static CancellableFSDataOutputStream replacing(FileSystem files, Path path) {
    FSDataOutputStreamBuilder file = files.createFile(path).overwrite(true);
    file.opt("fs.s3a.create.performance", "true");
    try {
      return new Replacing(file.build());
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  /** `written` is counted up when the file is there. */
  static CancellableFSDataOutputStream creating(FileSystem files, Path path, AtomicLong written) {
    return new Creating(files, path, new ByteArrayOutputStream(), written);
  }

  /** Sent while it is written, and there when it is closed. */
  private static final class Replacing extends CancellableFSDataOutputStream {
    private final FSDataOutputStream file;
    private boolean done;

    Replacing(FSDataOutputStream file) {
      super(file);
      this.file = file;
    }

    @Override
    public void close() throws IOException {
      if (!done) {
        done = true;
        file.close();
      }
    }

    @Override
    public void cancel() {
      if (!done) {
        done = true;
        file.abort();
      }
    }
  }

  /**
   * Sent as a whole when it is closed, under the condition that nothing has its name. Such files are small.
   *
   * <p>A client that repeats a request whose answer was lost is told that the file exists: it is its own. So whoever is
   * refused, or not answered, looks whether the bytes there are these.
   */
  private static final class Creating extends CancellableFSDataOutputStream {
    private final FileSystem files;
    private final Path path;
    private final ByteArrayOutputStream bytes;
    private final AtomicLong written;
    private boolean done;

    Creating(FileSystem files, Path path, ByteArrayOutputStream bytes, AtomicLong written) {
      super(bytes);
      this.files = files;
      this.path = path;
      this.bytes = bytes;
      this.written = written;
    }

    @Override
    public void close() throws IOException {
      if (done) {
        return;
      }
      done = true;
      try {
        send();
      } catch (IOException refused) {
        if (!isThere()) {
          throw refused;
        }
      }
      written.incrementAndGet();
    }

    private void send() throws IOException {
      FSDataOutputStreamBuilder file = files.createFile(path).overwrite(false);
      // `must`: a Hadoop that does not know the condition refuses, instead of leaving it out.
      file.must("fs.option.create.conditional.overwrite", "true");
      FSDataOutputStream sent = file.build();
      try {
        sent.write(bytes.toByteArray());
      } catch (IOException | RuntimeException error) {
        sent.abort();
        throw error;
      }
      sent.close();
    }

    private boolean isThere() {
      try (FSDataInputStream found = files.open(path)) {
        return Arrays.equals(found.readAllBytes(), bytes.toByteArray());
      } catch (IOException error) {
        return false;
      }
    }

    @Override
    public void cancel() {
      done = true;
    }
  }
}
