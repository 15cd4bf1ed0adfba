package io.stateprocessor.interop;

import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.internal.TableEnvironmentImpl;

/** The numbers of the nodes of plans, which Flink counts in a JVM, whatever it compiles; operators' uids have them. */
final class NodeNumbers {

    /** Numbers the nodes to come as in a new JVM. */
    static void restart() throws ReflectiveOperationException {
        TableEnvironment tables = TableEnvironment.create(EnvironmentSettings.inStreamingMode());
        ClassLoader planner = ((TableEnvironmentImpl) tables).getPlanner().getClass().getClassLoader();
        Class.forName("org.apache.flink.table.planner.plan.nodes.exec.ExecNodeContext", true, planner)
                .getMethod("resetIdCounter")
                .invoke(null);
    }

    private NodeNumbers() {}
}
