package stormwright.topologies;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.storm.state.KeyValueState;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseStatefulBolt;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/**
 * Keeps a {@link Tally} of each key in a state that Storm checkpoints, and passes tuples on.
 *
 * <p>Storm acks a tuple once the checkpoint that has its effect is committed: a number that was acked is in the committed
 * state. It is counted at least once: if the worker ends between the commit and those acks, the tuple is emitted and
 * counted again. So is a tuple whose timeout passes before the next commit, as all that are pending when the topology is
 * deactivated: that stops the checkpoint spout as well. The count of a {@link Tally} exceeds its numbers then.
 */
final class LedgerCount extends BaseStatefulBolt<KeyValueState<String, String>> {
    private final int keys;
    private transient OutputCollector collector;
    private transient KeyValueState<String, String> state;
    private transient Map<Long, Tally> tallies;
    private transient Set<Long> changed;

    LedgerCount(int keys) {
        this.keys = keys;
    }

    @Override
    public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
        this.collector = collector;
    }

    @Override
    public void initState(KeyValueState<String, String> state) {
        this.state = state;
        tallies = new HashMap<>();
        changed = new HashSet<>();
    }

    @Override
    public void execute(Tuple tuple) {
        Emission emission = Emission.of(tuple);
        long key = tuple.getLong(0);
        tallies.computeIfAbsent(key, this::load).add(emission.task(), emission.number() / keys);
        changed.add(key);
        collector.emit(tuple, new Values(tuple.getValues().toArray()));
        collector.ack(tuple);
    }

    private Tally load(Long key) {
        return Tally.parse(state.get(key.toString(), "0"));
    }

    @Override
    public void prePrepare(long txid) {
        changed.forEach(key -> state.put(key.toString(), tallies.get(key).toString()));
        changed.clear();
    }

    /** The state is about to return to the last commit: the tallies are read from it again. */
    @Override
    public void preRollback() {
        if (tallies != null) { // else the worker was just started
            tallies.clear();
            changed.clear();
        }
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(Emission.FIELDS);
    }
}
