package stormwright.probe;

import java.util.List;
import java.util.Map;
import org.apache.storm.serialization.KryoValuesSerializer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** How many bytes Storm would send for the values of a tuple, found by serializing them; not thread-safe. */
final class PayloadSampler {
    private static final Logger LOG = LoggerFactory.getLogger(PayloadSampler.class);
    static final int UNKNOWN = -1;

    private KryoValuesSerializer serializer;

    PayloadSampler(Map<String, Object> conf) {
        try {
            serializer = new KryoValuesSerializer(conf);
        } catch (RuntimeException | LinkageError e) {
            giveUp(e);
        }
    }

    int sizeOf(List<Object> values) {
        if (serializer == null) {
            return UNKNOWN;
        }
        try {
            return serializer.serialize(values).length;
        } catch (Throwable e) {
            // A topology may keep objects that cannot be serialized inside one worker: no reason to try each again.
            // One that holds itself takes the whole stack.
            giveUp(e);
            return UNKNOWN;
        }
    }

    private void giveUp(Throwable e) {
        serializer = null;
        LOG.info("tuple sizes of a task are not measured: {}", e.toString());
    }
}
