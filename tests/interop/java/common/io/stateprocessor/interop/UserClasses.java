package io.stateprocessor.interop;

import java.io.File;
import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileObject;
import javax.tools.StandardJavaFileManager;
import javax.tools.StandardLocation;
import javax.tools.ToolProvider;

/**
 * The classes that a type's description declares, compiled and loaded by a loader of their own, so that two descriptions can have
 * different classes of one name, as two versions of a job have.
 */
final class UserClasses {

    private static final Map<String, String> JAVA_TYPES =
            Map.ofEntries(
                    Map.entry("BOOLEAN", "boolean"),
                    Map.entry("BYTE", "byte"),
                    Map.entry("SHORT", "short"),
                    Map.entry("INT", "int"),
                    Map.entry("LONG", "long"),
                    Map.entry("FLOAT", "float"),
                    Map.entry("DOUBLE", "double"),
                    Map.entry("CHAR", "char"),
                    Map.entry("BOXED_INT", "Integer"),
                    Map.entry("BOXED_LONG", "Long"),
                    Map.entry("STRING", "String"),
                    Map.entry("BIG_DEC", "java.math.BigDecimal"),
                    Map.entry("INSTANT", "java.time.Instant"),
                    Map.entry("LOCAL_DATE", "java.time.LocalDate"),
                    Map.entry("INT_ARRAY", "int[]"),
                    Map.entry("LONG_ARRAY", "long[]"),
                    Map.entry("STRING_ARRAY", "String[]"));

    private static final JavaCompiler COMPILER = ToolProvider.getSystemJavaCompiler();

    /** It remembers what Flink's jars contain, from one compilation to the next. */
    private static final StandardJavaFileManager FILES = COMPILER.getStandardFileManager(null, null, null);

    static {
        Stream<Path> classPath = Stream.of(System.getProperty("java.class.path").split(File.pathSeparator)).map(Path::of);
        try {
            FILES.setLocationFromPaths(StandardLocation.CLASS_PATH, classPath.toList());
        } catch (IOException impossible) {
            throw new ExceptionInInitializerError(impossible);
        }
    }

    private final Map<String, String> sources = new LinkedHashMap<>();
    private final ClassLoader loader;

    UserClasses(TypeText type) throws IOException {
        collect(type);
        loader = sources.isEmpty() ? UserClasses.class.getClassLoader() : compile();
    }

    ClassLoader loader() {
        return loader;
    }

    Class<?> load(String name) throws ClassNotFoundException {
        return Class.forName(name, true, loader);
    }

    private void collect(TypeText type) {
        switch (type.name()) {
            case "POJO" -> {
                TypeText base = type.argument(0);
                declare(base, pojo(base, null));
                type.parts().stream().skip(1).forEach(each -> declare(each, pojo(each, base.name())));
            }
            case "ENUM" -> declare(type.argument(0), "public enum %s {" + String.join(", ", type.argument(0).members()) + "}");
            case "KRYO" -> type.parts().forEach(each -> declare(each, hidden(each)));
            case "CASE_CLASS" -> declare(type.argument(0), "public class %s extends scala.Tuple2 { public %1$s() { super(null, null); } }");
            default -> {}
        }
        if (!type.name().endsWith("_DATA")) {
            type.parts().forEach(this::collect);
        }
    }

    private void declare(TypeText type, String body) {
        if (type.members() != null) {
            sources.put(type.name(), body);
        }
    }

    private static String pojo(TypeText type, String parent) {
        StringBuilder body = new StringBuilder("public class %s").append(parent == null ? "" : " extends " + parent).append(" {");
        if (type.members() != null) {
            type.parts().forEach(m -> body.append(" public ").append(javaType(m)).append(' ').append(m.field()).append(';'));
        }
        return body.append(" public %1$s() {} }").toString();
    }

    /** No POJO: no setters, no constructor without arguments. */
    private static String hidden(TypeText type) {
        return "public class %s { private final int x; public %1$s(int x) { this.x = x; } public int x() { return x; } }";
    }

    private static String javaType(TypeText type) {
        return switch (type.name()) {
            case "POJO", "ENUM", "KRYO" -> type.argument(0).name();
            case "LIST" -> "java.util.List<" + boxed(type.argument(0)) + ">";
            case "SET" -> "java.util.Set<" + boxed(type.argument(0)) + ">";
            case "MAP" -> "java.util.Map<" + boxed(type.argument(0)) + "," + boxed(type.argument(1)) + ">";
            case "TUPLE" -> "org.apache.flink.api.java.tuple.Tuple2<" + boxed(type.argument(0)) + "," + boxed(type.argument(1)) + ">";
            case "OBJECT_ARRAY" -> javaType(type.argument(0)) + "[]";
            default -> JAVA_TYPES.get(type.name());
        };
    }

    private static String boxed(TypeText type) {
        return switch (javaType(type)) {
            case "int" -> "Integer";
            case "long" -> "Long";
            case "double" -> "Double";
            default -> javaType(type);
        };
    }

    private ClassLoader compile() throws IOException {
        Path folder = Files.createTempDirectory("classes");
        List<Path> files = new ArrayList<>();
        for (Map.Entry<String, String> source : sources.entrySet()) {
            int dot = source.getKey().lastIndexOf('.');
            String simple = source.getKey().substring(dot + 1);
            Path file = Files.createDirectories(folder.resolve("src")).resolve(simple + ".java");
            Files.writeString(file, "package " + source.getKey().substring(0, dot) + "; " + source.getValue().formatted(simple));
            files.add(file);
        }
        synchronized (FILES) {
            FILES.setLocationFromPaths(StandardLocation.CLASS_OUTPUT, List.of(folder));
            Iterable<? extends JavaFileObject> units = FILES.getJavaFileObjectsFromPaths(files);
            if (!COMPILER.getTask(null, FILES, null, List.of("-nowarn", "-proc:none"), null, units).call()) {
                throw new IllegalArgumentException("cannot compile " + sources);
            }
        }
        return new URLClassLoader(new URL[] {folder.toUri().toURL()}, UserClasses.class.getClassLoader());
    }
}
