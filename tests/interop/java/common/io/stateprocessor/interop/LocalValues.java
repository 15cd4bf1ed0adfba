package io.stateprocessor.interop;

import java.io.ByteArrayOutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Date;
import java.sql.Time;
import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TimeZone;
import java.util.function.Function;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.base.SqlDateSerializer;
import org.apache.flink.api.common.typeutils.base.SqlTimeSerializer;
import org.apache.flink.api.common.typeutils.base.SqlTimestampSerializer;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputViewStreamWrapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;

/**
 * Values of {@code java.sql} in JVMs of several time zones. Arguments: a file with a JSON list of requests, each with a {@code zone}, a
 * {@code type}, {@code texts} for {@code valueOf} and {@code bytes} as hexadecimal digits, and the file to write the answers to: the
 * bytes that Flink's serializer writes for the texts, and the texts of what it reads from the bytes.
 */
public final class LocalValues {

    private record Kind<T>(TypeSerializer<T> serializer, Function<String, T> valueOf) {

        String write(String text) throws Exception {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            serializer.serialize(valueOf.apply(text), new DataOutputViewStreamWrapper(bytes));
            return HexFormat.of().formatHex(bytes.toByteArray());
        }

        String read(String hex) throws Exception {
            return serializer.deserialize(new DataInputDeserializer(HexFormat.of().parseHex(hex))).toString();
        }
    }

    private static final Map<String, Kind<?>> KINDS =
            Map.of(
                    "SQL_DATE", new Kind<>(SqlDateSerializer.INSTANCE, Date::valueOf),
                    "SQL_TIME", new Kind<>(SqlTimeSerializer.INSTANCE, Time::valueOf),
                    "SQL_TIMESTAMP", new Kind<>(SqlTimestampSerializer.INSTANCE, Timestamp::valueOf));

    public static void main(String[] arguments) throws Exception {
        TimeZone before = TimeZone.getDefault();
        List<JsonNode> answers = new ArrayList<>();
        try {
            for (JsonNode request : Json.MAPPER.readTree(Path.of(arguments[0]).toFile())) {
                TimeZone.setDefault(TimeZone.getTimeZone(request.get("zone").asText()));
                answers.add(answer(KINDS.get(request.get("type").asText()), request));
            }
        } finally {
            TimeZone.setDefault(before);
        }
        Files.writeString(Path.of(arguments[1]), Json.array(answers).toString());
    }

    private static JsonNode answer(Kind<?> kind, JsonNode request) throws Exception {
        List<JsonNode> bytes = new ArrayList<>();
        for (JsonNode text : request.get("texts")) {
            bytes.add(Json.MAPPER.getNodeFactory().textNode(kind.write(text.asText())));
        }
        List<JsonNode> texts = new ArrayList<>();
        for (JsonNode hex : request.get("bytes")) {
            texts.add(Json.MAPPER.getNodeFactory().textNode(kind.read(hex.asText())));
        }
        ObjectNode answer = Json.object();
        answer.set("bytes", Json.array(bytes));
        answer.set("texts", Json.array(texts));
        return answer;
    }
}
