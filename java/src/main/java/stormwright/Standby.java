package stormwright;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.lang.reflect.InvocationTargetException;
import java.nio.file.Files;
import java.nio.file.Path;
import stormwright.standby.Loader;
import stormwright.standby.Takeover;
import stormwright.standby.Takeover.RefusedException;
import stormwright.standby.WorkerCommand;

/**
 * A JVM that has loaded Storm's worker and waits to become one: {@code Standby DIRECTORY SUPERVISOR CLASSES}.
 *
 * <p>{@code worker_java.sh} starts it, in DIRECTORY. When the file {@code ready} is there, a process id that is written to
 * the fifo {@code request} makes it the worker of that process, which runs {@code worker_java.sh} with the command of a
 * worker. It answers {@code yes}, or the reason for which it cannot, in the fifo {@code answer}, and writes the file
 * {@code running} once the worker has started. An idle standby ends with the supervisor. A version of
 * Storm or of Java that it does not support makes it write the reason to the file {@code off} and end.
 */
public final class Standby {
    private static final long SUPERVISOR_CHECK_MS = 5_000;

    private final Path directory;
    private volatile boolean taken;

    private Standby(Path directory) {
        this.directory = directory;
    }

    /** Runs a standby, and returns when it has become a worker. */
    public static void main(String[] args) throws Exception {
        new Standby(Path.of(args[0])).run(Long.parseLong(args[1]), Path.of(args[2]));
    }

    private void run(long supervisor, Path classes) throws Exception {
        String unsupported = Takeover.whyUnsupported();
        if (!unsupported.isEmpty()) {
            Files.writeString(directory.resolve("off"), unsupported + "\n");
            return;
        }
        Loader.load(classes);
        System.gc();
        endWithSupervisor(supervisor);
        // Opened for both directions, so that neither side waits for the other one to open it.
        try (RandomAccessFile request = open("request"); RandomAccessFile answer = open("answer")) {
            Files.writeString(directory.resolve("ready"), "");
            long pid = Long.parseLong(request.readLine().strip());
            taken = true;
            become(pid, answer);
        }
    }

    private void become(long pid, RandomAccessFile answer) throws Exception {
        WorkerCommand command;
        try {
            command = WorkerCommand.of(pid);
            Takeover.check(command);
        } catch (RefusedException e) {
            answer.writeBytes(e.getMessage() + "\n");
            return;
        } catch (IOException | RuntimeException e) {
            answer.writeBytes(e + "\n");
            return;
        }
        answer.writeBytes("yes\n");
        Takeover.apply(command);
        try {
            Class.forName(command.mainClass()).getMethod("main", String[].class)
                    .invoke(null, (Object) command.arguments().toArray(String[]::new));
        } catch (InvocationTargetException e) {
            // To the handler that the worker has installed.
            throw e.getCause() instanceof Exception cause ? cause : e;
        }
        Files.writeString(directory.resolve("running"), "");
    }

    private RandomAccessFile open(String fifo) throws IOException {
        return new RandomAccessFile(directory.resolve(fifo).toFile(), "rw");
    }

    private void endWithSupervisor(long pid) {
        ProcessHandle supervisor = ProcessHandle.of(pid).orElse(null);
        Thread watch = new Thread(() -> {
            // The directory may be removed by a cleaner of temporary files: no worker would ever find this standby.
            while (supervisor != null && supervisor.isAlive() && Files.exists(directory.resolve("pid"))) {
                try {
                    Thread.sleep(SUPERVISOR_CHECK_MS);
                } catch (InterruptedException e) {
                    return;
                }
                if (taken) {
                    return;
                }
            }
            if (!taken) {
                Runtime.getRuntime().halt(0);
            }
        }, "stormwright-standby-supervisor");
        watch.setDaemon(true);
        watch.start();
    }
}
