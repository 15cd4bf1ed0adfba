package io.stateprocessor.interop;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.rpc.RpcSystem;
import org.apache.flink.runtime.rpc.RpcSystemLoader;
import org.apache.flink.runtime.rpc.pekko.PekkoRpcSystemLoader;

/**
 * Gives all clusters of a JVM the same factory of RPC services. Flink's own loader unpacks a jar for each cluster, and loads its classes
 * anew, which takes longer than small jobs do.
 */
public final class SharedRpcSystem implements RpcSystemLoader {

    private static RpcSystem shared;

    @Override
    public int getLoadPriority() {
        return -1; // before Flink's
    }

    @Override
    public RpcSystem loadRpcSystem(Configuration configuration) {
        synchronized (SharedRpcSystem.class) {
            if (shared == null) {
                shared = withoutClose(new PekkoRpcSystemLoader().loadRpcSystem(configuration));
            }
            return shared;
        }
    }

    /** The same, but that a cluster that ends does not close it for the others. */
    private static RpcSystem withoutClose(RpcSystem rpcSystem) {
        return (RpcSystem)
                Proxy.newProxyInstance(
                        SharedRpcSystem.class.getClassLoader(),
                        new Class<?>[] {RpcSystem.class},
                        (proxy, method, arguments) -> {
                            if (method.getName().equals("close")) {
                                return null;
                            }
                            try {
                                return method.invoke(rpcSystem, arguments);
                            } catch (InvocationTargetException thrown) {
                                throw thrown.getCause();
                            }
                        });
    }
}
