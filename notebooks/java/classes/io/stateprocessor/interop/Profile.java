package io.stateprocessor.interop;

import java.lang.reflect.Type;
import java.time.LocalDate;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.typeinfo.TypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInfoFactory;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;

/**
 * A customer of the shop. The annotations give fields Flink's own serializers: by itself it would take Kryo for a date, and in Flink
 * 1.x for lists and maps.
 */
public class Profile {
    public String name;
    public String email;
    public Tier tier;
    public boolean active;
    public double discount;

    @TypeInfo(Dates.class)
    public LocalDate since;

    public Address address;

    @TypeInfo(Strings.class)
    public List<String> tags;

    @TypeInfo(Counts.class)
    public Map<String, Long> visits;

    /** Names the type of a date. */
    public static class Dates extends TypeInfoFactory<LocalDate> {
        @Override
        public TypeInformation<LocalDate> createTypeInfo(Type type, Map<String, TypeInformation<?>> parameters) {
            return Types.LOCAL_DATE;
        }
    }

    /** Names the type of a list of strings. */
    public static class Strings extends TypeInfoFactory<List<String>> {
        @Override
        public TypeInformation<List<String>> createTypeInfo(Type type, Map<String, TypeInformation<?>> parameters) {
            return Types.LIST(Types.STRING);
        }
    }

    /** Names the type of a map of counts. */
    public static class Counts extends TypeInfoFactory<Map<String, Long>> {
        @Override
        public TypeInformation<Map<String, Long>> createTypeInfo(Type type, Map<String, TypeInformation<?>> parameters) {
            return Types.MAP(Types.STRING, Types.LONG);
        }
    }
}
