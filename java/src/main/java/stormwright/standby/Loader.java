package stormwright.standby;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** Loads the classes that a worker has loaded, from a list that its JVM has written. */
public final class Loader {
    private Loader() {
    }

    /**
     * Loads all classes of a list that are on the class path, and initializes Storm's and ours.
     *
     * @param list the JVM's log {@code class+load}, or the file of {@code -XX:DumpLoadedClassList}: lines that begin with
     *     the name of a class; it may be missing
     */
    public static void load(Path list) throws IOException {
        if (Files.exists(list)) {
            CpuBackoff backoff = new CpuBackoff();
            try (var lines = Files.lines(list)) {
                lines.map(line -> line.split(" ", 2)[0].replace('/', '.')).forEach(name -> {
                    load(name);
                    backoff.pause();
                });
            }
        }
        Takeover.reloadLogging(); // it runs once before it matters
    }

    private static void load(String name) {
        boolean initialize = name.startsWith("org.apache.storm.") || name.startsWith("stormwright.probe.");
        try {
            Class.forName(name, initialize, Loader.class.getClassLoader());
        } catch (ClassNotFoundException | LinkageError | RuntimeException e) {
            // Of a topology, or made at run time: the worker loads it when it needs it.
        }
    }
}
