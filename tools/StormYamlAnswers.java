package stormwright;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.storm.Config;
import org.apache.storm.DaemonConfig;
import org.apache.storm.daemon.supervisor.SupervisorUtils;
import org.apache.storm.daemon.supervisor.timer.SupervisorHeartbeat;
import org.apache.storm.generated.SupervisorInfo;
import org.apache.storm.shade.net.minidev.json.JSONValue;
import org.apache.storm.utils.Utils;
import org.apache.storm.validation.ConfigValidation;
import sun.misc.Unsafe;

/** What a supervisor with each {@code storm.yaml} on standard input registers: a line of JSON, or where it fails. */
public final class StormYamlAnswers {
    private StormYamlAnswers() {
    }

    public static void main(String[] args) throws IOException {
        PrintStream out = System.out;
        System.setOut(System.err);
        BufferedReader files = new BufferedReader(new InputStreamReader(System.in));
        for (String file = files.readLine(); file != null; file = files.readLine()) {
            Map<String, Object> answer = new LinkedHashMap<>();
            try {
                answer.put("node", node(file));
            } catch (Throwable e) {
                Throwable cause = e instanceof InvocationTargetException ? e.getCause() : e;
                answer.put("error", cause.toString().lines().findFirst().orElse(""));
            }
            out.println(JSONValue.toJSONString(answer));
        }
        out.flush();
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> node(String file) throws ReflectiveOperationException {
        // As ConfigUtils.readStormConfig does, of which a storm.yaml on the class path may be empty.
        Map<String, Object> conf = Utils.readDefaultConfig();
        conf.putAll(Utils.findAndReadConfigFile(file, false));
        ConfigValidation.validateFields(conf);
        // Its constructor wants a whole supervisor, and this method nothing of it.
        Field theUnsafe = Unsafe.class.getDeclaredField("theUnsafe");
        theUnsafe.setAccessible(true);
        Object heartbeat = ((Unsafe) theUnsafe.get(null)).allocateInstance(SupervisorHeartbeat.class);
        Method capacities = SupervisorHeartbeat.class.getDeclaredMethod("mkSupervisorCapacities", Map.class);
        capacities.setAccessible(true);
        Map<String, Double> resources = (Map<String, Double>) capacities.invoke(heartbeat, conf);
        List<Integer> ports = SupervisorUtils.getSlotsPorts(conf);
        Map<String, String> meta = (Map<String, String>) conf.get(DaemonConfig.SUPERVISOR_SCHEDULER_META);
        SupervisorInfo info = new SupervisorInfo(0, String.valueOf(conf.get(Config.STORM_LOCAL_HOSTNAME)));
        info.set_meta(ports.stream().map(Long::valueOf).toList());
        info.set_scheduler_meta(meta);
        info.set_resources_map(resources);
        info = Utils.thriftDeserialize(SupervisorInfo.class, Utils.thriftSerialize(info));
        Map<String, Object> node = new LinkedHashMap<>();
        node.put("host", conf.get(Config.STORM_LOCAL_HOSTNAME));
        node.put("ports", info.get_meta());
        node.put("meta", info.get_scheduler_meta());
        node.put("resources", new TreeMap<>(info.get_resources_map()));
        return node;
    }
}
