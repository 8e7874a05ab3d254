package stormwright.topologies;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.storm.Config;
import org.apache.storm.daemon.StormCommon;
import org.apache.storm.generated.ComponentCommon;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.metrics2.StormMetricRegistry;
import org.apache.storm.spout.CheckPointState;
import org.apache.storm.spout.CheckpointSpout;
import org.apache.storm.spout.ISpoutOutputCollector;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.IOutputCollector;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.IRichBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.TupleImpl;
import org.apache.storm.tuple.Values;
import org.apache.storm.utils.Utils;

/** A ledger topology as workers get it: components are deserialized from it, and contexts are those of its tasks. */
final class LedgerTopology {
    final Map<String, Object> conf = Utils.readDefaultConfig();
    private final StormTopology topology;
    private final Map<Integer, String> taskToComponent = new TreeMap<>();
    private final Map<String, List<Integer>> componentToTasks = new HashMap<>();
    private final Map<String, Map<String, Fields>> streams = new HashMap<>();

    LedgerTopology(Ledger.Kind kind, Path directory, String... args) {
        List<String> all = new ArrayList<>(List.of(args));
        all.add("directory=" + directory);
        Arguments arguments = Arguments.parse(all.toArray(String[]::new), Ledger.defaults(kind));
        topology = Ledger.build(kind, arguments);
        conf.putAll(arguments.stormConf());
        conf.put(Config.STORM_ID, "ledger-1-1600000000");
        new TreeMap<>(StormCommon.allComponents(topology)).forEach((name, component) -> {
            ComponentCommon common = StormCommon.getComponentCommon(component);
            for (int i = 0; i < common.get_parallelism_hint(); i++) {
                componentToTasks.computeIfAbsent(name, key -> new ArrayList<>()).add(taskToComponent.size() + 1);
                taskToComponent.put(taskToComponent.size() + 1, name);
            }
            Map<String, Fields> fields = new HashMap<>();
            common.get_streams().forEach((id, info) -> fields.put(id, new Fields(info.get_output_fields())));
            streams.put(name, fields);
        });
    }

    /** The context of the first task of a component. */
    TopologyContext context(String component) {
        return new TopologyContext(topology, conf, taskToComponent, componentToTasks, streams, Map.of(), "ledger", null,
                null, componentToTasks.get(component).get(0), 6700, List.copyOf(taskToComponent.keySet()), Map.of(),
                Map.of(), Map.of(), Map.of(), new AtomicBoolean(), new StormMetricRegistry());
    }

    /** A new instance of a bolt, prepared, as a worker has it that was just started. */
    IRichBolt bolt(String component, Answers answers) {
        byte[] serialized = topology.get_bolts().get(component).get_bolt_object().get_serialized_java();
        IRichBolt bolt = Utils.javaDeserialize(serialized, IRichBolt.class);
        Map<String, Object> own = new HashMap<>(conf);
        own.putAll(Utils.parseJson(topology.get_bolts().get(component).get_common().get_json_conf()));
        bolt.prepare(own, context(component), new OutputCollector(answers));
        return bolt;
    }

    Tuple tuple(String to, String from, Emission emission, int keys) {
        return new TupleImpl(context(to), emission.values(keys), from, componentToTasks.get(from).get(0), "default");
    }

    Tuple checkpoint(String to, String from, long txid, CheckPointState.Action action) {
        return new TupleImpl(context(to), new Values(txid, action), from, componentToTasks.get(from).get(0),
                CheckpointSpout.CHECKPOINT_STREAM_ID);
    }

    /** What a bolt does with tuples. */
    static final class Answers implements IOutputCollector {
        final List<Tuple> acked = new ArrayList<>();
        final List<Tuple> failed = new ArrayList<>();
        final List<List<Object>> emitted = new ArrayList<>();

        @Override
        public List<Integer> emit(String stream, Collection<Tuple> anchors, List<Object> tuple) {
            emitted.add(tuple);
            return List.of();
        }

        @Override
        public void emitDirect(int task, String stream, Collection<Tuple> anchors, List<Object> tuple) {
            emitted.add(tuple);
        }

        @Override
        public void ack(Tuple tuple) {
            acked.add(tuple);
        }

        @Override
        public void fail(Tuple tuple) {
            failed.add(tuple);
        }

        @Override
        public void resetTimeout(Tuple tuple) {
            // no timeouts here
        }

        @Override
        public void flush() {
            // nothing is buffered
        }

        @Override
        public void reportError(Throwable error) {
            // Storm's wrapper of the bolt fails the tuple as well
        }
    }

    /** What a spout emits. */
    static final class Emissions implements ISpoutOutputCollector {
        final List<Emission> emitted = new ArrayList<>();
        final List<Object> ids = new ArrayList<>();

        SpoutOutputCollector collector() {
            return new SpoutOutputCollector(this);
        }

        List<Long> numbers() {
            return emitted.stream().map(Emission::number).toList();
        }

        @Override
        public List<Integer> emit(String stream, List<Object> values, Object id) {
            emitted.add(new Emission(
                    (Integer) values.get(1), (Integer) values.get(2), (Integer) values.get(3), (Long) values.get(4)));
            ids.add(id);
            return List.of();
        }

        @Override
        public void emitDirect(int task, String stream, List<Object> values, Object id) {
            throw new UnsupportedOperationException();
        }

        @Override
        public long getPendingCount() {
            return 0;
        }

        @Override
        public void flush() {
            // nothing is buffered
        }

        @Override
        public void reportError(Throwable error) {
            throw new AssertionError(error);
        }
    }
}
