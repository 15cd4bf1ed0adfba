package io.stateprocessor.interop;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/**
 * Writes snapshots and what they hold.
 *
 * <p>Arguments: the directory to write to, then one CASE/VARIANT each, or CASE/VARIANT/SNAPSHOT for cases that go on from one. Makes
 * CASE-VARIANT/savepoint and CASE-VARIANT/expected.json.
 */
public final class GenerateFixtures {

    public static void main(String[] arguments) throws Exception {
        Path output = Path.of(arguments[0]).toAbsolutePath();
        for (String wanted : List.of(arguments).subList(1, arguments.length)) {
            String[] parts = wanted.split("/", 3);
            Path from = parts.length > 2 ? Path.of(parts[2]) : null;
            Path directory = Files.createDirectories(output).resolve(parts[0] + "-" + parts[1]);
            FixtureCase.named(parts[0]).generate(Variant.parse(parts[1]), directory, from);
        }
    }

    private GenerateFixtures() {}
}
