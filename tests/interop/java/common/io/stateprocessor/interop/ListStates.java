package io.stateprocessor.interop;

import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputViewStreamWrapper;
import org.apache.flink.runtime.checkpoint.Checkpoints;
import org.apache.flink.runtime.checkpoint.OperatorState;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.runtime.state.KeyGroupsStateHandle;
import org.apache.flink.runtime.state.KeyedBackendSerializationProxy;
import org.apache.flink.runtime.state.KeyedStateHandle;
import org.apache.flink.runtime.state.OperatorBackendSerializationProxy;
import org.apache.flink.runtime.state.OperatorStateHandle;
import org.apache.flink.runtime.state.metainfo.StateMetaInfoSnapshot;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;

/**
 * Reads canonical savepoints as far as Flink does before it knows the job: {@code _metadata}, and the headers of all files with their
 * serializer snapshots. Arguments: a file with a JSON list of directories, and the file to write the list of answers to.
 */
public final class ListStates {

    private static final ClassLoader LOADER = ListStates.class.getClassLoader();

    public static void main(String[] arguments) throws Exception {
        List<JsonNode> answers = new ArrayList<>();
        for (JsonNode directory : Json.MAPPER.readTree(Path.of(arguments[0]).toFile())) {
            answers.add(operators(Path.of(directory.asText())));
        }
        Files.writeString(Path.of(arguments[1]), Json.array(answers).toString());
    }

    private static JsonNode operators(Path directory) throws IOException {
        ObjectNode operators = Json.object();
        try (InputStream in = Files.newInputStream(directory.resolve("_metadata"))) {
            for (OperatorState operator :
                    Checkpoints.loadCheckpointMetadata(new DataInputStream(in), LOADER, directory.toUri().toString()).getOperatorStates()) {
                Map<String, JsonNode> states = new TreeMap<>();
                for (OperatorSubtaskState subtask : operator.getStates()) {
                    for (KeyedStateHandle handle : subtask.getManagedKeyedState()) {
                        addKeyed(states, (KeyGroupsStateHandle) handle);
                    }
                    for (OperatorStateHandle handle : subtask.getManagedOperatorState()) {
                        addOperatorStates(states, handle);
                    }
                }
                ObjectNode answer = Json.object().put("coordinator", operator.getCoordinatorState() != null);
                answer.set("states", Json.array(states.values()));
                operators.set(operator.getOperatorID().toHexString(), answer);
            }
        }
        return operators;
    }

    private static void addKeyed(Map<String, JsonNode> states, KeyGroupsStateHandle handle) throws IOException {
        KeyedBackendSerializationProxy<?> header = new KeyedBackendSerializationProxy<>(LOADER);
        try (InputStream in = handle.openInputStream()) {
            header.read(new DataInputViewStreamWrapper(in));
        }
        states.put("(key)", Json.object().put("name", "(key)").put("serializer_snapshot", className(header.getKeySerializerSnapshot())));
        for (StateMetaInfoSnapshot state : header.getStateMetaInfoSnapshots()) {
            ObjectNode options = Json.object();
            state.getOptionsImmutable().forEach(options::put);
            ObjectNode snapshots = Json.object();
            new TreeMap<>(state.getSerializerSnapshotsImmutable()).forEach((role, snapshot) -> snapshots.put(role, className(snapshot)));
            ObjectNode json = Json.object().put("name", state.getName()).put("type", state.getBackendStateType().name());
            json.set("options", options);
            json.set("serializer_snapshots", snapshots);
            states.put(state.getName(), json);
        }
    }

    private static void addOperatorStates(Map<String, JsonNode> states, OperatorStateHandle handle) throws IOException {
        OperatorBackendSerializationProxy header = new OperatorBackendSerializationProxy(LOADER);
        try (InputStream in = handle.openInputStream()) {
            header.read(new DataInputViewStreamWrapper(in));
        }
        List<StateMetaInfoSnapshot> registered = new ArrayList<>(header.getOperatorStateMetaInfoSnapshots());
        registered.addAll(header.getBroadcastStateMetaInfoSnapshots());
        Map<String, OperatorStateHandle.StateMetaInfo> offsets = handle.getStateNameToPartitionOffsets();
        for (StateMetaInfoSnapshot state : registered) {
            String mode = offsets.get(state.getName()).getDistributionMode().name();
            states.put(state.getName(), Json.object().put("name", state.getName()).put("type", "OPERATOR").put("mode", mode));
        }
    }

    private static String className(TypeSerializerSnapshot<?> snapshot) {
        return snapshot.getClass().getName();
    }

    private ListStates() {}
}
