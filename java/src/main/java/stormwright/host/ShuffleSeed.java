package stormwright.host;

import java.lang.reflect.Field;
import java.util.Collections;
import java.util.Random;

/** Makes {@code Collections.shuffle} repeatable, which Storm's IsolationScheduler calls without a seed. */
final class ShuffleSeed {
    private ShuffleSeed() {
    }

    /** Later calls shuffle by a new generator with this seed. */
    static void set(long seed) throws HostException {
        try {
            Field generator = Collections.class.getDeclaredField("r");
            generator.setAccessible(true);
            generator.set(null, new Random(seed));
        } catch (ReflectiveOperationException | RuntimeException e) {
            throw new HostException("this JVM does not let Collections.shuffle be seeded; "
                    + "start it with --add-opens=java.base/java.util=ALL-UNNAMED", e);
        }
    }
}
