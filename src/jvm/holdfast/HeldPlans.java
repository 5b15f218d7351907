package holdfast;

import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BiFunction;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * Writes a query's checkpoint files as Spark does, on S3 by one PUT each, but holds `offsets/N` back until the plan of
 * batch N is kept.
 *
 * <p>Spark runs a batch when its offsets are written. So no sink sees a batch before its keeper has answered. Where no
 * keeper is registered for a directory, as on an executor, nothing is held.
 */
public class HeldPlans extends FileSystemBasedCheckpointFileManager {
  /** By checkpoint directory. A keeper answers with nothing, or with why the batch must not run. */
  private static final Map<String, BiFunction<String, byte[], String>> KEEPERS = new ConcurrentHashMap<>();

  /** Of queries in this JVM that write to S3. Whoever waits for the next one need not list what is there. */
  private static final AtomicLong COMMITS = new AtomicLong();

  private final Path directory;

  public HeldPlans(Path path, Configuration configuration) {
    super(path, configuration);
    directory = path;
  }

  public static void hold(String directory, BiFunction<String, byte[], String> keeper) {
    KEEPERS.put(directory, keeper);
  }

  public static void release(String directory) {
    KEEPERS.remove(directory);
  }

  public static long commits() {
    return COMMITS.get();
  }

  @Override
  public CancellableFSDataOutputStream createAtomic(Path path, boolean overwriteIfPossible) {
    Path folder = path.getParent();
    CancellableFSDataOutputStream file =
        onObjects() ? onObjects(path, overwriteIfPossible) : super.createAtomic(path, overwriteIfPossible);
    if (!folder.getName().equals("offsets")) {
      return file;
    }
    BiFunction<String, byte[], String> keeper = KEEPERS.get(nameOf(folder.getParent()));
    return keeper == null ? file : new Held(file, path.getName(), keeper, new ByteArrayOutputStream());
  }

  /** Mounted directories are known by their path alone. */
  private static String nameOf(Path directory) {
    URI uri = directory.toUri();
    return uri.getAuthority() == null ? uri.getPath() : directory.toString();
  }

  private CancellableFSDataOutputStream onObjects(Path path, boolean overwrite) {
    return overwrite
        ? ObjectWrites.replacing(fs(), path)
        : ObjectWrites.creating(fs(), path, path.getParent().getName().equals("commits") ? COMMITS : new AtomicLong());
  }

  private boolean onObjects() {
    return ObjectWrites.areFor(fs());
  }

  /** There are no folders among objects: one without files does not exist, and is not made. */
  @Override
  public void mkdirs(Path path) {
    if (!onObjects()) {
      super.mkdirs(path);
    }
  }

  @Override
  public Path createCheckpointDirectory() {
    return onObjects() ? fs().makeQualified(directory) : super.createCheckpointDirectory();
  }

  @Override
  public FileStatus[] list(Path path, PathFilter filter) throws IOException {
    try {
      return super.list(path, filter);
    } catch (FileNotFoundException error) {
      if (onObjects()) {
        return new FileStatus[0];
      }
      throw error;
    }
  }

  private static final class Held extends CancellableFSDataOutputStream {
    private final CancellableFSDataOutputStream file;
    private final String batch;
    private final BiFunction<String, byte[], String> keeper;
    private final ByteArrayOutputStream plan;
    private boolean done;

    Held(
        CancellableFSDataOutputStream file,
        String batch,
        BiFunction<String, byte[], String> keeper,
        ByteArrayOutputStream plan) {
      super(plan);
      this.file = file;
      this.batch = batch;
      this.keeper = keeper;
      this.plan = plan;
    }

    @Override
    public void close() throws IOException {
      if (done) {
        return;
      }
      done = true;
      String refusal;
      try {
        refusal = keeper.apply(batch, plan.toByteArray());
      } catch (RuntimeException error) {
        file.cancel();
        throw error;
      }
      if (!refusal.isEmpty()) {
        file.cancel();
        throw new IOException(refusal);
      }
      file.write(plan.toByteArray());
      file.close();
    }

    @Override
    public void cancel() {
      if (!done) {
        done = true;
        file.cancel();
      }
    }
  }
}
