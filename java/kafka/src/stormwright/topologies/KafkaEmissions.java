package stormwright.topologies;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.storm.kafka.spout.RecordTranslator;
import org.apache.storm.tuple.Fields;

/**
 * Makes the tuples of a ledger of the records that a {@code KafkaSpout} is about to emit, and journals each emission.
 *
 * <p>The spout also has a failed record translated that it then does not emit, as it is not to be repeated yet. Such an
 * emission counts as one that was lost on its way.
 */
final class KafkaEmissions implements RecordTranslator<String, String> {
    private final String directory;
    private final int keys;
    private transient Map<Integer, KafkaJournal> journals;

    KafkaEmissions(String directory, int keys) {
        this.directory = directory;
        this.keys = keys;
    }

    @Override
    public List<Object> apply(ConsumerRecord<String, String> record) {
        long number = Long.parseLong(record.value());
        if (number != record.offset()) {
            throw new IllegalStateException("number " + number + " is at offset " + record.offset());
        }
        if (journals == null) {
            journals = new HashMap<>();
        }
        KafkaJournal journal = journals.computeIfAbsent(record.partition(), this::begin);
        try {
            return new Emission(record.partition(), journal.run(), journal.emitting(number), number).values(keys);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private KafkaJournal begin(int partition) {
        try {
            return new KafkaJournal(Path.of(directory), partition, 1);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public Fields getFieldsFor(String stream) {
        return Emission.FIELDS;
    }
}
