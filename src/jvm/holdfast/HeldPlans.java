package holdfast;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiFunction;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * Writes a query's checkpoint files as Spark does, but holds `offsets/N` back until the plan of batch N is kept.
 *
 * <p>Spark runs a batch when its offsets are written. So no sink sees a batch before its keeper has answered. Where no
 * keeper is registered for a directory, as on an executor, nothing is held.
 */
public class HeldPlans extends FileSystemBasedCheckpointFileManager {
  /** By checkpoint directory. A keeper answers with nothing, or with why the batch must not run. */
  private static final Map<String, BiFunction<String, byte[], String>> KEEPERS = new ConcurrentHashMap<>();

  public HeldPlans(Path path, Configuration configuration) {
    super(path, configuration);
  }

  public static void hold(String directory, BiFunction<String, byte[], String> keeper) {
    KEEPERS.put(directory, keeper);
  }

  public static void release(String directory) {
    KEEPERS.remove(directory);
  }

  @Override
  public CancellableFSDataOutputStream createAtomic(Path path, boolean overwriteIfPossible) {
    CancellableFSDataOutputStream file = super.createAtomic(path, overwriteIfPossible);
    Path folder = path.getParent();
    if (!folder.getName().equals("offsets")) {
      return file;
    }
    BiFunction<String, byte[], String> keeper = KEEPERS.get(folder.getParent().toUri().getPath());
    return keeper == null ? file : new Held(file, path.getName(), keeper, new ByteArrayOutputStream());
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
