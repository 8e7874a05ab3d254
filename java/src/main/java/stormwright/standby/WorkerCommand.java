package stormwright.standby;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The command of a worker, as a supervisor has given it to a process: {@code … LogWriter java OPTIONS -cp PATH MAIN ARGUMENTS}.
 *
 * @param status lines of the process's /proc/PID/status by their first word
 * @param directory its working directory
 * @param environment its environment
 * @param options options of the JVM except for {@code -D} and the class path
 * @param properties system properties
 * @param classPath the class path
 * @param mainClass name of the class to run
 * @param arguments arguments of its {@code main}
 */
public record WorkerCommand(
        Map<String, String> status, Path directory, Map<String, String> environment, List<String> options,
        Map<String, String> properties, String classPath, String mainClass, List<String> arguments) {

    private static final String LOG_WRITER = "org.apache.storm.LogWriter";

    /**
     * Reads the command of a process.
     *
     * @throws IOException if the process has ended or runs something else
     */
    public static WorkerCommand of(long pid) throws IOException {
        Path proc = Path.of("/proc", Long.toString(pid));
        return of(strings(proc.resolve("cmdline")), strings(proc.resolve("environ")), proc.resolve("cwd").toRealPath(),
                statusOf(proc));
    }

    static WorkerCommand of(List<String> words, List<String> environ, Path directory, Map<String, String> status)
            throws IOException {
        int at = words.indexOf(LOG_WRITER) + 2; // behind the java that the LogWriter would start
        if (at < 2) {
            throw new IOException("its command starts no worker");
        }
        List<String> options = new ArrayList<>();
        Map<String, String> properties = new LinkedHashMap<>();
        String classPath = "";
        for (; at < words.size() && words.get(at).startsWith("-"); at++) {
            String word = words.get(at);
            if (word.startsWith("-D")) {
                String[] pair = word.substring(2).split("=", 2);
                properties.put(pair[0], pair.length > 1 ? pair[1] : "");
            } else if (word.equals("-cp") && at + 1 < words.size()) {
                at++;
                classPath = words.get(at);
            } else {
                options.add(word);
            }
        }
        if (at >= words.size()) {
            throw new IOException("its command names no class to run");
        }
        Map<String, String> environment = new LinkedHashMap<>();
        for (String entry : environ) {
            int equals = entry.indexOf('=', 1);
            if (equals > 0) {
                environment.put(entry.substring(0, equals), entry.substring(equals + 1));
            }
        }
        return new WorkerCommand(status, directory, environment, options, properties, classPath, words.get(at),
                words.subList(at + 1, words.size()));
    }

    /** The lines of a process's {@code status} by their first word. */
    static Map<String, String> statusOf(Path proc) throws IOException {
        Map<String, String> status = new LinkedHashMap<>();
        for (String line : Files.readAllLines(proc.resolve("status"))) {
            String[] pair = line.split(":", 2);
            status.put(pair[0], pair[1].strip());
        }
        return status;
    }

    private static List<String> strings(Path file) throws IOException {
        String text = new String(Files.readAllBytes(file), StandardCharsets.UTF_8);
        return text.isEmpty() ? List.of() : List.of(text.substring(0, text.length() - 1).split("\0", -1));
    }
}
