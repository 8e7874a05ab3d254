package stormwright.topologies;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Tuple;

/** Appends the record of every emission to {@code sink-TASK-MILLISECONDS.log}, and acks it then. */
final class LedgerSink extends BaseRichBolt {
    private final String directory;
    private transient OutputCollector collector;
    private transient FileOutputStream log;

    LedgerSink(String directory) {
        this.directory = directory;
    }

    @Override
    public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
        this.collector = collector;
        log = LedgerFiles.append(Path.of(directory), "sink-" + context.getThisTaskIndex());
    }

    /** An error ends the worker: the next one begins a file of its own, so that a torn record is the last of its file. */
    @Override
    public void execute(Tuple tuple) {
        try {
            log.write(Emission.records(List.of(Emission.of(tuple))));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        collector.ack(tuple);
    }

    @Override
    public void cleanup() {
        try {
            log.close();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        // the end of the line
    }
}
