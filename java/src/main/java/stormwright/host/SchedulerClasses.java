package stormwright.host;

import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.util.List;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.resource.strategies.scheduling.IStrategy;

/** Schedulers and strategies by name; those of Storm also without their package. */
public final class SchedulerClasses {
    private static final String PACKAGE = "org.apache.storm.scheduler.";
    private static final List<String> SCHEDULERS =
            List.of("", PACKAGE, PACKAGE + "multitenant.", PACKAGE + "resource.");
    private static final List<String> STRATEGIES = List.of("", PACKAGE + "resource.strategies.scheduling.");

    private SchedulerClasses() {
    }

    /** A new scheduler. What its constructor throws is thrown on. */
    public static IScheduler scheduler(String name) throws Throwable {
        Class<? extends IScheduler> found = find(name, SCHEDULERS, IScheduler.class);
        Constructor<? extends IScheduler> constructor;
        try {
            constructor = found.getDeclaredConstructor();
        } catch (NoSuchMethodException e) {
            throw new HostException(found.getName() + " has no constructor without arguments", e);
        }
        try {
            constructor.setAccessible(true);
            return constructor.newInstance();
        } catch (InvocationTargetException e) {
            throw e.getCause();
        } catch (InstantiationException e) {
            throw new HostException(found.getName() + " is abstract", e);
        }
    }

    /** The full name of a strategy. */
    static String strategy(String name) throws HostException {
        return find(name, STRATEGIES, IStrategy.class).getName();
    }

    private static <T> Class<? extends T> find(String name, List<String> packages, Class<T> kind)
            throws HostException {
        ClassNotFoundException notFound = null;
        for (String prefix : name.contains(".") ? List.of("") : packages) {
            try {
                // Initialised later: what a static block throws should be told as what the scheduler threw.
                Class<?> found = Class.forName(prefix + name, false, SchedulerClasses.class.getClassLoader());
                if (!kind.isAssignableFrom(found)) {
                    throw new HostException(found.getName() + " is no " + kind.getName(), null);
                }
                return found.asSubclass(kind);
            } catch (ClassNotFoundException e) {
                notFound = e;
            }
        }
        throw new HostException("there is no class " + name + " in Storm's jars or in those given", notFound);
    }
}
