package io.stateprocessor.interop;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The input of the jobs in this JVM, by job name. Only the steps' indexes go through a job, so that no step needs a serializer;
 * this is where its operators look them up.
 */
final class Steps {

    private static final Map<String, List<Step>> ALL = new ConcurrentHashMap<>();

    static void put(String job, List<Step> steps) {
        ALL.put(job, steps);
    }

    static Step get(String job, int index) {
        return ALL.get(job).get(index);
    }

    static int count(String job) {
        return ALL.get(job).size();
    }

    private Steps() {}
}
