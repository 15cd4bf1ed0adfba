package io.stateprocessor.interop;

import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

/** What is asked of the table API's types by classes that do without the table API. */
interface TableTypes {

    /** The type of rows in their internal form; {@code fields} as in SQL. */
    TypeInformation<?> type(String fields);

    /** Such a row as a {@code Row}. */
    Object plain(String fields, Object row);

    /** Such a row from JSON, the inverse of {@link Json} for what {@link #plain} gives. */
    Object made(String fields, JsonNode json);
}
