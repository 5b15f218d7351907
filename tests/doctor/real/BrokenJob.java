import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.functions.ReduceFunction;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/** A stateful job that runs until it is killed or fails. Arguments: `key=value`, all settings of Flink; `slow=ms`; `jar=path` for a cluster. */
public class BrokenJob {
    static final String PAYLOAD = "x".repeat(2000);

    public static void main(String[] arguments) throws Exception {
        Configuration settings = new Configuration();
        long slow = 0;
        String jar = null;
        for (String argument : arguments) {
            String[] parts = argument.split("=", 2);
            if (parts[0].equals("slow")) {
                slow = Long.parseLong(parts[1]);
            } else if (parts[0].equals("jar")) {
                jar = parts[1];
            } else {
                settings.setString(parts[0], parts[1]);
            }
        }
        StreamExecutionEnvironment env = jar == null
                ? StreamExecutionEnvironment.getExecutionEnvironment(settings)
                : StreamExecutionEnvironment.createRemoteEnvironment("127.0.0.1", 18471, settings, jar);
        env.setParallelism(2);
        DataStream<Long> numbers = env.fromSequence(0, Long.MAX_VALUE);
        numbers.map(new Pause(slow)).name("enrich")
                .keyBy(new Key())
                .reduce(new Last()).name("last order")
                .sinkTo(new DiscardingSink<>());
        env.execute("orders");
    }

    static class Pause implements MapFunction<Long, String> {
        private final long slow;

        Pause(long slow) {
            this.slow = slow;
        }

        @Override
        public String map(Long number) throws Exception {
            Thread.sleep(slow > 0 ? slow : (number % 10 == 0 ? 1 : 0));
            return (number % 20000) + " " + PAYLOAD;
        }
    }

    static class Key implements KeySelector<String, String> {
        @Override
        public String getKey(String order) {
            return order.substring(0, order.indexOf(' '));
        }
    }

    static class Last implements ReduceFunction<String> {
        @Override
        public String reduce(String before, String after) {
            return after;
        }
    }
}
