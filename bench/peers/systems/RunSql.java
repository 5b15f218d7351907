import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Runs SQL over the table `events`: the numbers 0, 1, 2 … in order, with an event time and a watermark.
 * Arguments: script, rows per second (0: as fast as possible), rows per second of event time, delay of the watermark,
 * "local" or "host:port:jar", then settings of Flink as `key=value`.
 */
public class RunSql {
    private static final long HALF = 1L << 40;
    private static final int PARALLELISM = 2;

    public static void main(String[] arguments) throws Exception {
        double pace = Double.parseDouble(arguments[1]);
        Configuration settings = new Configuration();
        for (int place = 5; place < arguments.length; place++) {
            String[] parts = arguments[place].split("=", 2);
            settings.setString(parts[0], parts[1]);
        }
        StreamExecutionEnvironment environment = environment(arguments[4], settings);
        environment.setParallelism(PARALLELISM);
        StreamTableEnvironment tables = StreamTableEnvironment.create(environment);
        DataStream<Long> numbers = environment.fromSource(source(pace), WatermarkStrategy.noWatermarks(), "numbers");
        tables.createTemporaryView("events", numbers, Schema.newBuilder()
                .columnByExpression("n", "f0")
                .columnByExpression("event_time", "TO_TIMESTAMP_LTZ(f0 * 1000 / " + arguments[2] + ", 3)")
                .watermark("event_time", "event_time - INTERVAL '" + arguments[3] + "' SECOND")
                .build());
        String[] statements = Files.readString(Path.of(arguments[0])).split(";");
        for (int place = 0; place < statements.length - 1; place++) {
            tables.executeSql(statements[place]);
        }
        tables.executeSql(statements[statements.length - 1]).await();
    }

    private static StreamExecutionEnvironment environment(String target, Configuration settings) {
        if (target.equals("local")) {
            return StreamExecutionEnvironment.getExecutionEnvironment(settings);
        }
        String[] parts = target.split(":", 3);
        return StreamExecutionEnvironment.createRemoteEnvironment(
                parts[0], Integer.parseInt(parts[1]), settings, parts[2]);
    }

    private static DataGeneratorSource<Long> source(double pace) {
        RateLimiterStrategy limit = pace > 0 ? RateLimiterStrategy.perSecond(pace) : RateLimiterStrategy.noOp();
        return new DataGeneratorSource<>(new Interleaved(), 2 * HALF, limit, Types.LONG);
    }

    /** The source gives each of two tasks one half of a range; so both are at the same time of the events. */
    public static class Interleaved implements GeneratorFunction<Long, Long> {
        @Override
        public Long map(Long position) {
            return 2 * (position % HALF) + position / HALF;
        }
    }
}
