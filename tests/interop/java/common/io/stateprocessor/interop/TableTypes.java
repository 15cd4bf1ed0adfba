package io.stateprocessor.interop;

import org.apache.flink.api.common.typeinfo.TypeInformation;

/** What is asked of the table API's types by classes that do without the table API. */
interface TableTypes {

    /** The type of rows in their internal form; {@code fields} as in SQL. */
    TypeInformation<?> type(String fields);

    /** Such a row as a {@code Row}. */
    Object plain(String fields, Object row);
}
