package stormwright;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.zip.GZIPOutputStream;
import org.apache.storm.Config;
import org.apache.storm.generated.StormTopology;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.apache.storm.testing.TestWordCounter;
import org.apache.storm.testing.TestWordSpout;
import org.apache.storm.topology.SharedOffHeapWithinNode;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.tuple.Fields;
import org.apache.storm.utils.Utils;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class TopologyReaderTest {
    @TempDir
    private Path directory;

    /** 3 spout executors for 7 tasks and 2 bolt executors, written as Nimbus does. */
    private static StormTopology topology() {
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("word", new TestWordSpout(), 3).setNumTasks(7).setCPULoad(25);
        builder.setBolt("count", new TestWordCounter(), 2).fieldsGrouping("word", new Fields("word"))
                .addSharedMemory(new SharedOffHeapWithinNode(100, "cache")).addConfiguration("tags", "etl, gpu");
        return builder.createTopology();
    }

    private static Map<String, Object> conf() {
        Map<String, Object> conf = new HashMap<>();
        conf.put(Config.TOPOLOGY_NAME, "wc");
        conf.put(Config.STORM_ID, "wc-4-1600000000");
        conf.put(Config.TOPOLOGY_SUBMITTER_USER, "me");
        conf.put(Config.TOPOLOGY_WORKERS, 2);
        return conf;
    }

    private String file(String name, byte[] bytes) throws IOException {
        return Files.write(directory.resolve(name), bytes).toString();
    }

    private static Map<?, ?> read(String... files) {
        return (Map<?, ?>) JSONValue.parse(JSONValue.toJSONString(TopologyReader.read(files)));
    }

    private static String fault(Map<?, ?> answer, int index) {
        Map<?, ?> fault = (Map<?, ?>) ((List<?>) answer.get("faults")).get(index);
        return Path.of((String) fault.get("file")).getFileName() + " " + fault.get("path") + " " + fault.get("message");
    }

    @Test
    void readsWhatNimbusWrites() throws IOException {
        Map<?, ?> answer = read(file("code", Utils.serialize(topology())), file("conf", Utils.toCompressedJsonConf(conf())));
        assertEquals(List.of(), answer.get("faults"));
        Map<?, ?> topology = (Map<?, ?>) ((List<?>) answer.get("topologies")).get(0);
        assertEquals("wc-4-1600000000", topology.get("id"));
        assertEquals("me", topology.get("owner"));
        assertEquals(2, topology.get("num_workers"));
        assertEquals(1600000000, topology.get("launch_time"));
        // An acker a worker; 7 tasks in 3 executors are 3, 2 and 2.
        assertEquals(List.of(List.of(0, 1, 2, 1), List.of(1, 3, 2, 1), List.of(2, 5, 1, 3), List.of(2, 8, 2, 2)),
                topology.get("executor_runs"));
        List<?> components = (List<?>) topology.get("components");
        assertEquals(List.of("__acker", "count", "word"),
                components.stream().map(component -> ((Map<?, ?>) component).get("id")).toList());
        Map<?, ?> count = (Map<?, ?>) components.get(1);
        assertEquals(List.of("etl", "gpu"), count.get("tags"));
        assertEquals(List.of(Map.of("name", "cache", "off_heap_node", 100.0)), count.get("shared_memory"));
        Map<?, ?> word = (Map<?, ?>) components.get(2);
        assertFalse(word.containsKey("shared_memory"));
        assertEquals(25.0, ((Map<?, ?>) word.get("resources")).get("cpu.pcore.percent"));
    }

    private static byte[] gzip(String text) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (GZIPOutputStream compressed = new GZIPOutputStream(bytes)) {
            compressed.write(text.getBytes());
        }
        return bytes.toByteArray();
    }

    @Test
    void everyFaultOfEveryFile() throws IOException {
        String code = file("code", Utils.serialize(topology()));
        Map<String, Object> nameless = conf();
        nameless.remove(Config.TOPOLOGY_NAME);
        Map<String, Object> wrong = conf();
        wrong.put(Config.TOPOLOGY_ACKER_EXECUTORS, "many");
        byte[] whole = Utils.serialize(topology());
        Map<?, ?> answer = read(
                "none", file("empty", new byte[0]),
                file("half", java.util.Arrays.copyOf(whole, whole.length / 2)),
                file("nameless", Utils.toCompressedJsonConf(nameless)),
                code, file("list", gzip("[1]")),
                code, file("wrong", Utils.toCompressedJsonConf(wrong)),
                file("other", gzip("not thrift")), file("good", Utils.toCompressedJsonConf(conf())));
        assertEquals("none $ cannot be read: No such file or directory", fault(answer, 0));
        assertTrue(fault(answer, 1).startsWith("empty $ is not a serialized configuration"), fault(answer, 1));
        assertTrue(fault(answer, 2).startsWith("half $ is not a serialized topology: "), fault(answer, 2));
        assertEquals("nameless $[\"topology.name\"] required field missing", fault(answer, 3));
        assertTrue(fault(answer, 4).startsWith("list $ is not a serialized configuration"), fault(answer, 4));
        assertTrue(fault(answer, 5).startsWith("wrong $ does not fit the topology: "), fault(answer, 5));
        assertTrue(fault(answer, 6).startsWith("other $ is not a serialized topology: "), fault(answer, 6));
        assertEquals(7, ((List<?>) answer.get("faults")).size());
        assertEquals(List.of(), answer.get("topologies"));
    }
}
