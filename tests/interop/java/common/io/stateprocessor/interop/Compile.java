package io.stateprocessor.interop;

import javax.tools.ToolProvider;

/** Compiles Java sources: the arguments are those of {@code javac}, and the output too. */
public final class Compile {

    public static void main(String[] arguments) {
        if (ToolProvider.getSystemJavaCompiler().run(null, null, null, arguments) != 0) {
            throw new IllegalArgumentException("the compiler refused the sources");
        }
    }

    private Compile() {}
}
