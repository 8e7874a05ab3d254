package stormwright.bridge;

import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import org.apache.storm.daemon.StormCommon;
import org.apache.storm.scheduler.SupervisorDetails;

/** Tags of components and of nodes; given as a list, as one text with commas, or both. */
final class Tags {
    private static final String KEY = "tags";

    private Tags() {
    }

    /** What a component asks for: a part of a topology's structure, or null. */
    static Set<String> ofComponent(Object component) {
        return component == null ? Set.of() : of(StormCommon.componentConf(component).get(KEY));
    }

    static Set<String> ofNode(SupervisorDetails node) {
        return node.getSchedulerMeta() instanceof Map<?, ?> meta ? of(meta.get(KEY)) : Set.of();
    }

    private static Set<String> of(Object given) {
        Set<String> tags = new LinkedHashSet<>();
        if (given instanceof Collection<?> list) {
            list.forEach(item -> tags.addAll(of(item)));
        } else if (given != null) {
            Arrays.stream(given.toString().split(",")).map(String::strip).filter(tag -> !tag.isEmpty())
                    .forEach(tags::add);
        }
        return tags;
    }
}
