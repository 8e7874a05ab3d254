package stormwright.probe.system;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** Files as Linux has them below {@code /proc} and {@code /sys}, in a directory. */
record Kernel(Path root) {
    Path proc() {
        return root.resolve("proc");
    }

    Path self() {
        return proc().resolve("self");
    }

    Path tasks() {
        return self().resolve("task");
    }

    Path cpu() {
        return root.resolve("cpu0");
    }

    void thread(int id, String name, long cpuNs, long waitedNs) {
        thread(id, name, cpuNs, waitedNs, 5);
    }

    void thread(int id, String name, long cpuNs, long waitedNs, long runs) {
        write(tasks().resolve(id + "/comm"), name + "\n");
        write(tasks().resolve(id + "/schedstat"), cpuNs + " " + waitedNs + " " + runs + "\n");
    }

    void gone(int id) throws IOException {
        for (String file : new String[] {"comm", "schedstat", ""}) {
            Files.delete(tasks().resolve(id + "/" + file));
        }
    }

    /** Lines as {@code "eth0: 1000 2000"}: bytes received and sent. */
    void traffic(String... lines) {
        StringBuilder text = new StringBuilder("Inter-|   Receive |  Transmit\n face |bytes packets |bytes packets\n");
        for (String line : lines) {
            String[] parts = line.split(" ");
            text.append("  %s %s 7 0 0 0 0 0 0 %s 9 0 0 0 0 0 0\n".formatted(parts[0], parts[1], parts[2]));
        }
        write(self().resolve("net/dev"), text.toString());
    }

    void write(Path file, String text) {
        try {
            Files.createDirectories(file.getParent());
            Files.writeString(file, text);
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }
}
