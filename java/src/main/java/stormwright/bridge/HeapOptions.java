package stormwright.bridge;

import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.storm.Config;

/** Options of workers that decide about their heap. Others may contain secrets: they are left out. */
final class HeapOptions {
    private static final List<String> OPTIONS = List.of(Config.WORKER_CHILDOPTS, Config.WORKER_GC_CHILDOPTS,
            Config.TOPOLOGY_WORKER_CHILDOPTS, Config.TOPOLOGY_WORKER_GC_CHILDOPTS);
    private static final List<String> MAXIMUM = List.of("-Xmx", "-XX:MaxHeapSize=");

    private HeapOptions() {
    }

    /** Those of the cluster's configuration: for each key its options of the heap, which may be none. */
    static Map<String, Object> ofCluster(Map<String, Object> conf) {
        Map<String, Object> found = new TreeMap<>();
        OPTIONS.stream().filter(key -> conf.get(key) != null).forEach(key -> found.put(key, maximum(conf.get(key))));
        if (conf.get(Config.WORKER_HEAP_MEMORY_MB) != null) {
            found.put(Config.WORKER_HEAP_MEMORY_MB, conf.get(Config.WORKER_HEAP_MEMORY_MB));
        }
        return found;
    }

    /** The heap in MB of a topology's workers without requests, if it differs from the cluster's. */
    static Map<String, Object> ofTopology(Map<String, Object> own, Map<String, Object> conf) {
        Object heap = own.get(Config.WORKER_HEAP_MEMORY_MB);
        boolean same = heap == null || Objects.equals(heap, conf.get(Config.WORKER_HEAP_MEMORY_MB));
        return same ? Map.of() : Map.of(Config.WORKER_HEAP_MEMORY_MB, heap);
    }

    private static String maximum(Object options) {
        Stream<?> texts = options instanceof List<?> list ? list.stream() : Stream.of(options);
        return texts.flatMap(text -> Stream.of(String.valueOf(text).split("\\s+")))
                .filter(option -> MAXIMUM.stream().anyMatch(option::startsWith)).collect(Collectors.joining(" "));
    }
}
