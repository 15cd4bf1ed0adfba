package io.stateprocessor.interop;

import java.util.ArrayList;
import java.util.List;

/**
 * A part of a type's description: {@code NAME<argument,…>}, {@code class{member,…}}, each after an optional marker ({@code +},
 * {@code ~}, {@code -}) and field name: {@code POJO<a.B{x:INT},+a.C{y:LIST<LONG>}>}.
 */
record TypeText(char marker, String field, String text, String name, List<String> members, List<String> arguments) {

    static TypeText parse(String whole) {
        String text = whole.trim();
        char marker = ' ';
        if (!text.isEmpty() && "+~-".indexOf(text.charAt(0)) >= 0) {
            marker = text.charAt(0);
            text = text.substring(1);
        }
        int end = 0;
        while (end < text.length() && "<{:(".indexOf(text.charAt(end)) < 0) {
            end++;
        }
        String field = null;
        if (end < text.length() && text.charAt(end) == ':') {
            field = text.substring(0, end);
            TypeText rest = parse(text.substring(end + 1));
            return new TypeText(marker, field, rest.text, rest.name, rest.members, rest.arguments);
        }
        char open = end < text.length() ? text.charAt(end) : ' ';
        List<String> members = open == '{' ? split(text.substring(end + 1, text.lastIndexOf('}'))) : null;
        List<String> arguments = open == '<' ? split(text.substring(end + 1, text.lastIndexOf('>'))) : List.of();
        return new TypeText(marker, field, text, text.substring(0, end), members, arguments);
    }

    TypeText argument(int index) {
        return parse(arguments.get(index));
    }

    List<TypeText> parts() {
        List<String> texts = members == null ? arguments : members;
        return texts.stream().map(TypeText::parse).toList();
    }

    /** The parts between the commas that stand in no inner brackets. */
    private static List<String> split(String text) {
        List<String> parts = new ArrayList<>();
        int depth = 0;
        int start = 0;
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            depth += "<{(".indexOf(c) >= 0 ? 1 : ">})".indexOf(c) >= 0 ? -1 : 0;
            if (c == ',' && depth == 0) {
                parts.add(text.substring(start, i));
                start = i + 1;
            }
        }
        if (start < text.length()) {
            parts.add(text.substring(start));
        }
        return parts;
    }
}
