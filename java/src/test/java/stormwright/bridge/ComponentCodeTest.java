package stormwright.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.storm.generated.Bolt;
import org.apache.storm.generated.ComponentCommon;
import org.apache.storm.generated.ComponentObject;
import org.apache.storm.generated.ShellComponent;
import org.apache.storm.generated.SpoutSpec;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.state.KeyValueState;
import org.apache.storm.task.ShellBolt;
import org.apache.storm.testing.TestWordSpout;
import org.apache.storm.topology.IRichBolt;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseStatefulBolt;
import org.apache.storm.topology.base.BaseStatefulWindowedBolt;
import org.apache.storm.topology.base.BaseWindowedBolt;
import org.apache.storm.topology.base.BaseWindowedBolt.Count;
import org.apache.storm.topology.base.BaseWindowedBolt.Duration;
import org.apache.storm.trident.TridentTopology;
import org.apache.storm.trident.operation.builtin.Debug;
import org.apache.storm.trident.testing.FixedBatchSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.windowing.TupleWindow;
import org.junit.jupiter.api.Test;

/** Reads components as Storm's own builders make them. */
class ComponentCodeTest {
    private static final String TOPOLOGY = "org.apache.storm.topology.";

    private static Bolt windowed(BaseWindowedBolt bolt) {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("spout", new TestWordSpout(), 1);
        builder.setBolt("window", bolt, 1).shuffleGrouping("spout");
        return builder.createTopology().get_bolts().get("window");
    }

    private static List<?> classes(Object component) {
        return (List<?>) ComponentCode.of(component).get("classes");
    }

    @Test
    void plainComponentsHaveTheirOwnClass() {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("spout", new TestWordSpout(), 1);
        builder.setBolt("bolt", new TestCluster.Nothing(), 1).shuffleGrouping("spout");
        StormTopology topology = builder.createTopology();
        assertEquals("org.apache.storm.testing.TestWordSpout", classes(topology.get_spouts().get("spout")).get(0));
        assertEquals(TOPOLOGY + "BasicBoltExecutor", classes(topology.get_bolts().get("bolt")).get(0));
        assertFalse(ComponentCode.of(topology.get_bolts().get("bolt")).containsKey("event_time"));
        assertEquals(Map.of(), ComponentCode.of(null));
    }

    @Test
    void componentsOfAnotherLanguageAreShells() {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("spout", new TestWordSpout(), 1);
        builder.setBolt("own", new Python(), 1).shuffleGrouping("spout");
        StormTopology topology = builder.createTopology();
        Bolt own = topology.get_bolts().get("own");
        assertTrue(ComponentCode.isShell(own));
        assertEquals("org.apache.storm.task.ShellBolt", classes(own).get(1));
        assertFalse(ComponentCode.isShell(topology.get_spouts().get("spout")));
        // as the clients of other languages submit them
        ComponentObject shell = ComponentObject.shell(new ShellComponent("python3", "bolt.py"));
        assertTrue(ComponentCode.isShell(new Bolt(shell, new ComponentCommon())));
        assertEquals(List.of("org.apache.storm.spout.ShellSpout"), classes(new SpoutSpec(shell, new ComponentCommon())));
    }

    private static final class Python extends ShellBolt implements IRichBolt {
        Python() {
            super("python3", "bolt.py");
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("word"));
        }

        @Override
        public Map<String, Object> getComponentConfiguration() {
            return null;
        }
    }

    @Test
    void windowsHaveTheirLengthsInTheConfiguration() {
        Bolt bolt = windowed(new Windows().withWindow(Duration.seconds(20), Duration.seconds(5)));
        assertEquals(TOPOLOGY + "WindowedBoltExecutor", classes(bolt).get(0));
        assertFalse(ComponentCode.of(bolt).containsKey("event_time"));
        assertEquals(Map.of("topology.bolts.window.length.duration.ms", 20_000,
                "topology.bolts.window.sliding.interval.duration.ms", 5_000), ComponentCode.conf(bolt));
    }

    @Test
    void timestampsOfTuplesAreDetectedWithoutAnyKeyInTheConfiguration() {
        Count ten = Count.of(10);
        assertFalse(ComponentCode.of(windowed(new Windows().withTumblingWindow(ten))).containsKey("event_time"));
        BaseWindowedBolt byField = new Windows().withTumblingWindow(ten).withTimestampField("ts");
        assertEquals(true, ComponentCode.of(windowed(byField)).get("event_time"));
        BaseWindowedBolt byCode = new Windows().withTumblingWindow(ten).withTimestampExtractor(tuple -> 1L);
        assertEquals(true, ComponentCode.of(windowed(byCode)).get("event_time"));
    }

    @Test
    void windowsInStatefulTopologiesAreWrapped() {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("spout", new TestWordSpout(), 1);
        builder.setBolt("window", new Windows().withTumblingWindow(Count.of(3)).withTimestampField("ts"), 1)
                .shuffleGrouping("spout");
        builder.setBolt("state", new Stateful(), 1).shuffleGrouping("window");
        builder.setBolt("both", new StatefulWindows().withMessageIdField("id").withTumblingWindow(Count.of(3)), 1)
                .shuffleGrouping("state");
        builder.setBolt("persistent", new StatefulWindows().withPersistence().withTumblingWindow(Count.of(3)), 1)
                .shuffleGrouping("both");
        StormTopology topology = builder.createTopology();
        List<?> window = classes(topology.get_bolts().get("window"));
        assertEquals(TOPOLOGY + "CheckpointTupleForwarder", window.get(0));
        assertTrue(window.contains(TOPOLOGY + "WindowedBoltExecutor"));
        assertEquals(true, ComponentCode.of(topology.get_bolts().get("window")).get("event_time"));
        assertEquals(TOPOLOGY + "StatefulBoltExecutor", classes(topology.get_bolts().get("state")).get(0));
        assertTrue(classes(topology.get_bolts().get("both")).contains(TOPOLOGY + "StatefulWindowedBoltExecutor"));
        assertTrue(classes(topology.get_bolts().get("persistent"))
                .contains(TOPOLOGY + "PersistentWindowedBoltExecutor"));
        assertEquals("org.apache.storm.spout.CheckpointSpout",
                classes(topology.get_spouts().get("$checkpointspout")).get(0));
    }

    @Test
    void tridentHasACoordinator() {
        TridentTopology trident = new TridentTopology();
        List<Object> word = List.of("a");
        @SuppressWarnings("unchecked")
        FixedBatchSpout spout = new FixedBatchSpout(new Fields("word"), 3, word);
        trident.newStream("words", spout).each(new Fields("word"), new Debug());
        StormTopology topology = trident.build();
        assertTrue(topology.get_spouts().entrySet().stream().anyMatch(each -> each.getKey().startsWith("$mastercoord")
                && classes(each.getValue()).get(0).equals("org.apache.storm.trident.topology.MasterBatchCoordinator")));
    }

    /** Storm's Kafka client is not a dependency: this is the beginning of its stream, and the constant in it. */
    private static SpoutSpec kafkaSpout(String guarantee, String... names) {
        ByteBuffer stream = ByteBuffer.allocate(400).put(new byte[] {(byte) 0xAC, (byte) 0xED, 0, 5, 0x73});
        for (String name : names) {
            stream.put((byte) 0x72).put((byte) 0).put((byte) name.length()).put(name.getBytes(StandardCharsets.UTF_8))
                    .putLong(1L).put((byte) 0x02).put(new byte[] {0, 0, 0x78});
        }
        stream.put(guarantee.getBytes(StandardCharsets.UTF_8));
        return new SpoutSpec(ComponentObject.serialized_java(stream.array()), new ComponentCommon());
    }

    @Test
    void guaranteeOfKafkaSpoutIsRead() {
        String name = "org.apache.storm.kafka.spout.KafkaSpout";
        assertEquals(Map.of("classes", List.of(name), "guarantee", "AT_MOST_ONCE"),
                ComponentCode.of(kafkaSpout("AT_MOST_ONCE", name)));
        assertEquals(Map.of("classes", List.of("clicks.Clicks", name), "guarantee", "NO_GUARANTEE"),
                ComponentCode.of(kafkaSpout("NO_GUARANTEE", "clicks.Clicks", name)));
        assertFalse(ComponentCode.of(kafkaSpout("AT_MOST_ONCE", "clicks.Clicks")).containsKey("guarantee"));
    }

    @Test
    void streamsThatAreNoObjectsHaveNoClasses() {
        Bolt bolt = windowed(new Windows().withTumblingWindow(Count.of(3)));
        for (byte[] stream : List.of(new byte[0], new byte[] {0x72}, new byte[] {0x72, 0x7F, 0x7F, 'a', '.', 'b'})) {
            bolt.get_bolt_object().set_serialized_java(stream);
            assertEquals(Map.of(), ComponentCode.of(bolt));
        }
    }

    private static final class Windows extends BaseWindowedBolt {
        @Override
        public void execute(TupleWindow window) {
            // never run
        }
    }

    private static final class Stateful extends BaseStatefulBolt<KeyValueState<String, Long>> {
        @Override
        public void initState(KeyValueState<String, Long> state) {
            // never run
        }

        @Override
        public void execute(Tuple input) {
            // never run
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("word"));
        }
    }

    private static final class StatefulWindows extends BaseStatefulWindowedBolt<KeyValueState<String, Long>> {
        @Override
        public void initState(KeyValueState<String, Long> state) {
            // never run
        }

        @Override
        public void execute(TupleWindow window) {
            // never run
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("word"));
        }
    }
}
