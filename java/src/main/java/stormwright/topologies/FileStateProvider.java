package stormwright.topologies;

import java.nio.file.Path;
import java.util.Map;
import org.apache.storm.state.State;
import org.apache.storm.state.StateProvider;
import org.apache.storm.task.TopologyContext;

/** Makes states in files, below the directory of the ledger; for {@code topology.state.provider}. */
public final class FileStateProvider implements StateProvider {
    @Override
    public State newState(String namespace, Map<String, Object> topoConf, TopologyContext context) {
        return new FileState(Path.of((String) topoConf.get(Ledger.DIRECTORY)).resolve("state"), namespace);
    }
}
