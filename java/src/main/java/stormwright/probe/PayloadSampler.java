package stormwright.probe;

import java.util.List;
import java.util.Map;
import org.apache.storm.serialization.KryoValuesSerializer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** How many bytes Storm would send for the values of a tuple, found by serializing them; not thread-safe. */
final class PayloadSampler {
    private static final Logger LOG = LoggerFactory.getLogger(PayloadSampler.class);

    private final Map<String, Object> conf;
    private KryoValuesSerializer serializer;

    PayloadSampler(Map<String, Object> conf) {
        this.conf = conf;
        try {
            serializer = new KryoValuesSerializer(conf);
        } catch (RuntimeException | LinkageError e) {
            LOG.info("tuple sizes of a task are not measured: {}", e.toString());
        }
    }

    /** Whether sizes can be measured at all. */
    boolean works() {
        return serializer != null;
    }

    /**
     * The size of the values of a tuple in bytes.
     *
     * @throws UnserializableException if Storm could not send them to another worker, as the topology is configured
     */
    int sizeOf(List<Object> values) throws UnserializableException {
        try {
            return serializer.serialize(values).length;
        } catch (Throwable e) { // an object that holds itself takes the whole stack
            serializer = new KryoValuesSerializer(conf);
            throw new UnserializableException(e);
        }
    }

    /** A tuple that cannot leave its worker. */
    static final class UnserializableException extends Exception {
        private static final long serialVersionUID = 1L;
        private static final int LONGEST = 200;

        UnserializableException(Throwable cause) {
            super(firstLine(cause), cause, false, false);
        }

        private static String firstLine(Throwable cause) {
            String text = cause.toString().lines().findFirst().orElse("");
            return text.substring(0, Math.min(text.length(), LONGEST));
        }
    }
}
