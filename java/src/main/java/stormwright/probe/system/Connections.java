package stormwright.probe.system;

import java.nio.file.Path;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** TCP connections to this worker, as the kernel lists them. */
public final class Connections {
    /** Number, local address and port, remote address and port, state 01 (established), all in hexadecimal digits. */
    private static final String ESTABLISHED = "^\\s*\\d+: [0-9A-F]+:%04X [0-9A-F]+:[0-9A-F]{4} 01 ";

    private Connections() {
    }

    /** The number of established connections to a local port; 0 where the kernel does not list them. */
    public static long established(int port) {
        return established(port, List.of(Path.of("/proc/self/net/tcp"), Path.of("/proc/self/net/tcp6")));
    }

    static long established(int port, List<Path> lists) {
        Pattern line = Pattern.compile(ESTABLISHED.formatted(port), Pattern.MULTILINE);
        SmallFiles files = new SmallFiles();
        long found = 0;
        for (Path list : lists) {
            String text = files.read(list);
            Matcher matcher = line.matcher(text == null ? "" : text);
            while (matcher.find()) {
                found++;
            }
        }
        return found;
    }
}
