package io.stateprocessor.interop;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.stream.Stream;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/**
 * Calls our main classes for the process that started this JVM, one after the other: {@code Served END SCRATCH}.
 *
 * <p>A line of the input is a JSON object with the name of a {@code main} class, its {@code arguments}, and {@code jars} to add to the
 * class path before. What it prints ends with END and 0, or 1 if it threw something. The JVM ends with its input, also if a main class
 * has not returned or has left threads behind; it deletes the directory SCRATCH then.
 */
public final class Served {

    /** The classes of the buffers of operators with asynchronous state, in several versions of Flink. */
    private static final List<String> BUFFERS =
            Stream.of("AsyncRequestBuffer", "StateRequestBuffer").map("org.apache.flink.runtime.asyncprocessing."::concat).toList();

    public static void main(String[] arguments) throws IOException {
        PrintStream console = System.out;
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            JsonNode request = Json.MAPPER.readTree(line);
            new Thread(() -> answer(request, console, arguments[0]), "main").start();
        }
        try {
            delete(Path.of(arguments[1]));
        } finally {
            Runtime.getRuntime().halt(0);
        }
    }

    private static void answer(JsonNode request, PrintStream console, String end) {
        int code = 0;
        try {
            call(request);
        } catch (Throwable thrown) { // no thread but this one tells of it
            thrown.printStackTrace();
            code = 1;
        }
        endChecksOfBuffers();
        console.print(end + code + "\n");
        console.flush();
    }

    private static void call(JsonNode request) throws Throwable {
        for (JsonNode jar : request.get("jars")) {
            addToClassPath(jar.asText());
        }
        Class<?> main = Class.forName(Served.class.getPackageName() + "." + request.get("main").asText());
        String[] arguments = new String[request.get("arguments").size()];
        for (int i = 0; i < arguments.length; i++) {
            arguments[i] = request.get("arguments").get(i).asText();
        }
        try {
            main.getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException thrown) {
            throw thrown.getCause();
        }
    }

    /** Does what agents of a JVM may do. Flink loads classes of jobs, too, from the class path. */
    private static void addToClassPath(String jar) throws ReflectiveOperationException {
        ClassLoader loader = ClassLoader.getSystemClassLoader();
        Method append = loader.getClass().getDeclaredMethod("appendToClassPathForInstrumentation", String.class);
        append.setAccessible(true);
        append.invoke(loader, jar);
    }

    /** Operators never close their buffers. Each would look every 100 ms whether a request waits, until the JVM ends. */
    private static void endChecksOfBuffers() {
        for (String name : BUFFERS) {
            try {
                Field timer = Class.forName(name).getDeclaredField("DELAYER");
                timer.setAccessible(true);
                ((ScheduledThreadPoolExecutor) timer.get(null)).getQueue().clear();
            } catch (ReflectiveOperationException absent) {
                // Each version has one of these classes, and the first version has none.
            }
        }
    }

    private static void delete(Path directory) throws IOException {
        try (Stream<Path> found = Files.walk(directory)) {
            found.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
        } catch (java.io.UncheckedIOException changing) {
            // A job that still runs adds and deletes files.
        }
    }

    private Served() {}
}
