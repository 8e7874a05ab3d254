package stormwright.topologies;

import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Optional;

/**
 * The topologies of the literature that are a shape more than a task, with few executors, to grow by arguments.
 *
 * <p>The sources do not tell what filters let pass, except for the advertisements; here it is half.
 */
enum Shape {
    /** One bolt after the other. R-Storm: Peng and others, Middleware 2015, doi:10.1145/2814576.2814808. */
    LINEAR(spout("spout"), bolt("bolt-1", "spout"), bolt("bolt-2", "bolt-1"), bolt("bolt-3", "bolt-2")),

    /** To several bolts, whose streams meet again. R-Storm. */
    DIAMOND(spout("spout"), bolt("bolt-1", "spout"), bolt("bolt-2", "spout"), bolt("bolt-3", "spout"),
            bolt("sink", "bolt-1", "bolt-2", "bolt-3")),

    /** From several spouts, by way of one bolt, to several. R-Storm. */
    STAR(spout("spout-1"), spout("spout-2"), bolt("center", "spout-1", "spout-2"),
            bolt("sink-1", "center"), bolt("sink-2", "center")),

    /** Events of pages that load, as Yahoo counts them. R-Storm. */
    PAGE_LOAD(spout("spout"), bolt("transform", "spout"), bolt("filter-1", "transform").passing(0.5),
            bolt("join", "filter-1"), bolt("filter-2", "join").passing(0.5), bolt("aggregate", "filter-2"),
            bolt("sink", "aggregate")),

    /** Events that Yahoo processes in two ways. R-Storm. */
    PROCESSING(spout("spout"), bolt("transform", "spout"),
            bolt("filter", "transform").passing(0.5), bolt("join-1", "filter"), bolt("sink-1", "join-1"),
            bolt("join-2", "transform"), bolt("normalize", "join-2"), bolt("sink-2", "normalize")),

    /**
     * Yahoo's advertisements (Chintapalli and others, IPDPSW 2016, doi:10.1109/IPDPSW.2016.138) without Kafka and Redis:
     * one event in three is a view; 1000 advertisements belong to 100 campaigns, whose views are counted.
     */
    ADVERTISING(spout("spout"), bolt("deserialize", "spout"), bolt("filter", "deserialize").passing(1.0 / 3),
            bolt("project", "filter"), bolt("join", "project").withKeys(100), bolt("count", "join").byKey()),

    /** Speed of light: nothing but messages (SOL of Intel's Storm benchmark, with two levels of bolts). */
    SOL(spout("spout"), bolt("bolt-1", "spout"), bolt("bolt-2", "bolt-1"));

    final List<Component> components;

    Shape(Component... components) {
        this.components = List.of(components);
    }

    /** As arguments name it. */
    String text() {
        return name().toLowerCase(Locale.ROOT).replace('_', '-');
    }

    /** The shape that is called so. */
    static Optional<Shape> named(String text) {
        return Arrays.stream(values()).filter(shape -> shape.text().equals(text)).findFirst();
    }

    /** Whether anything subscribes to a component. */
    boolean feeds(Component component) {
        return components.stream().anyMatch(other -> other.inputs.contains(component.name));
    }

    /**
     * A component.
     *
     * @param executors unless an argument says otherwise
     * @param passing tuples that it emits for each that it gets
     * @param keys how many keys its tuples have
     * @param counts whether its inputs are grouped by key, and counted; else they are shuffled
     * @param inputs none for a spout
     */
    record Component(String name, int executors, double passing, int keys, boolean counts, List<String> inputs) {
        private Component passing(double share) {
            return new Component(name, executors, share, keys, counts, inputs);
        }

        private Component withKeys(int amount) {
            return new Component(name, executors, passing, amount, counts, inputs);
        }

        private Component byKey() {
            return new Component(name, executors, passing, keys, true, inputs);
        }

        boolean isSpout() {
            return inputs.isEmpty();
        }
    }

    private static Component spout(String name) {
        return new Component(name, 2, 1.0, 1000, false, List.of());
    }

    private static Component bolt(String name, String... inputs) {
        return new Component(name, 3, 1.0, 1000, false, List.of(inputs));
    }
}
