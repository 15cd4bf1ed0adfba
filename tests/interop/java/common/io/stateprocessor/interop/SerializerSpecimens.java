package io.stateprocessor.interop;

import java.io.ByteArrayOutputStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.MonthDay;
import java.time.OffsetDateTime;
import java.time.OffsetTime;
import java.time.Period;
import java.time.Year;
import java.time.YearMonth;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collection;
import java.util.Collections;
import java.util.Currency;
import java.util.Date;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.GregorianCalendar;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.LinkedList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.PriorityQueue;
import java.util.Set;
import java.util.TimeZone;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.Vector;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Pattern;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.java.typeutils.runtime.kryo.KryoSerializer;
import org.apache.flink.core.memory.DataOutputViewStreamWrapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;

/**
 * Bytes that Flink's KryoSerializer gives for values of many classes: {@code SerializerSpecimens FILE} writes them as JSON. Runs on
 * Flink 1.19 and newer.
 */
public final class SerializerSpecimens {

    public enum Level {
        LOW,
        HIGH {
            @Override
            public String toString() {
                return "high";
            }
        }
    }

    /** Without bodies the class is final, and Kryo leaves it out. */
    public enum Side {
        LEFT,
        RIGHT
    }

    public record Point(int x, Integer y, String name) {}

    /** Final as a record is; Kryo 2 can't write records. */
    public static final class Spot {
        private final int x;
        private final Integer y;

        Spot(int x, Integer y) {
            this.x = x;
            this.y = y;
        }
    }

    /** No POJO: no setters, no constructor without arguments. */
    public static class Money {
        private final long amount;
        private final String currency;

        Money(long amount, String currency) {
            this.amount = amount;
            this.currency = currency;
        }
    }

    public static class Tip extends Money {
        private final Double share;

        Tip(long amount, String currency, Double share) {
            super(amount, currency);
            this.share = share;
        }
    }

    /** A field of every kind that Kryo writes in its own way. */
    public static class Everything {
        private boolean aBoolean = true;
        private byte aByte = -2;
        private char aChar = 'ß';
        private short aShort = -300;
        private int anInt = -70000;
        private long aLong = 1L << 40;
        private float aFloat = 0.5f;
        private double aDouble = -2.25;
        private Boolean boxedBoolean = false;
        private Byte boxedByte = 3;
        private Character boxedChar = 'x';
        private Short boxedShort = 300;
        private Integer boxedInt = 70000;
        private Long boxedLong = null;
        private Float boxedFloat = 1.5f;
        private Double boxedDouble = 2.5;
        private String text = "text";
        private String noText = null;
        private Level level = Level.HIGH;
        private Level noLevel = null;
        private Side side = Side.RIGHT;
        private Side noSide = null;
        private List<Side> sides = new ArrayList<>(Arrays.asList(Side.LEFT, null));
        private List<String> listWithNull = new ArrayList<>(Arrays.asList("one", null));
        private List<List<Integer>> nestedList = new ArrayList<>(List.of(new ArrayList<>(List.of(1, 2))));
        private Map<String, Money> moneyMap = new HashMap<>(Map.of("m", new Money(8, "EUR")));
        private Map<Long, int[]> arrayMap = new TreeMap<>(Map.of(9L, new int[] {1}));
        private Optional<String> optional = Optional.of("maybe");
        private List<String> singleton = Collections.singletonList("single");
        private List<String> immutable = List.of("x", "y");
        private List<String> asList = Arrays.asList("p", "q");
        private Set<String> sorted = new TreeSet<>(Set.of("t"));
        private Spot spot = new Spot(1, null);
        private List<Spot> spots = new ArrayList<>(List.of(new Spot(2, 3)));
        private int[][] matrix = {{1}, {}};
        private LocalDateTime dateTime = LocalDateTime.of(2024, 2, 29, 13, 5);
        private BigDecimal decimal = new BigDecimal("12.50");
        private BigInteger integer = BigInteger.valueOf(-129);
        private Date date = new Date(1600000000123L);
        private UUID uuid = new UUID(1, 2);
        private int[] ints = {1, -1, 300};
        private String[] texts = {"a", null};
        private Object[] objects = {1, "b", null};
        private Money[] monies = {new Money(1, "EUR"), null};
        private List<String> list = new ArrayList<>(List.of("one", "two"));
        private ArrayList<Long> arrayList = new ArrayList<>(List.of(1L, 2L));
        private List<Money> moneyList = new ArrayList<>(List.of(new Money(2, "CHF")));
        private List<?> wildList = new ArrayList<>(List.of("w"));
        @SuppressWarnings("rawtypes")
        private List rawList = new LinkedList<>(List.of(7));
        private Map<String, Long> map = new HashMap<>(Map.of("k", 1L));
        private Map<String, List<String>> nestedMap = new HashMap<>(Map.of("k", new ArrayList<>(List.of("v"))));
        private Set<Integer> set = new HashSet<>(Set.of(5));
        private Object object = new Money(3, "USD");
        private Object noObject = null;
        private Money money = new Money(4, "EUR");
        private Money tip = new Tip(5, "EUR", 0.5);
        private BitSet bits = BitSet.valueOf(new long[] {5});
        private Instant instant = Instant.ofEpochSecond(1600000000L, 5);
        private transient String notWritten = "transient";
        private static final String CONSTANT = "static";
    }

    private final ArrayNode cases = Json.MAPPER.createArrayNode();
    private final List<Class<?>> registered;
    private final Set<Class<?>> shown = new HashSet<>();

    private SerializerSpecimens(List<Class<?>> registered) {
        this.registered = registered;
    }

    public static void main(String[] args) throws Exception {
        SerializerSpecimens plain = new SerializerSpecimens(List.of());
        plain.scalars();
        plain.collections();
        plain.objects();
        SerializerSpecimens withRegistrations = new SerializerSpecimens(List.of(Money.class, BitSet.class, Level.class, Tip.class));
        withRegistrations.add("registered money", Object.class, new Money(-5, "EUR"));
        withRegistrations.add("registered level", Object.class, Level.LOW);
        withRegistrations.add("registered tip", Money.class, new Tip(7, "EUR", null));
        withRegistrations.add("registered bits", Object.class, BitSet.valueOf(new long[] {1}));
        withRegistrations.add("registered list", List.class, new ArrayList<>(List.of(new Money(1, "A"), new Tip(2, "B", 1.0))));
        plain.cases.addAll(withRegistrations.cases);
        Files.writeString(Path.of(args[0]), plain.cases.toString());
    }

    private void scalars() throws Exception {
        for (Object value :
                new Object[] {
                    true, (byte) -3, 'ä', (short) -2, 0, -1, 63, 64, Integer.MIN_VALUE, Integer.MAX_VALUE, 0L, -1L, Long.MIN_VALUE,
                    Long.MAX_VALUE, 1.5f, Float.NaN, -2.5, Double.NEGATIVE_INFINITY
                }) {
            add(value.getClass().getSimpleName() + " " + value, Object.class, value);
        }
        add("null", Object.class, null);
        String[] texts = {
            "", "a", "ab", "ä", "aä", "\u0000", "\u007f\u0080", "€uro", "\ud83d\ude00", "\ud800", "x".repeat(31), "x".repeat(32),
            "x".repeat(33), "x".repeat(62), "x".repeat(63), "x".repeat(64), "x".repeat(65), "ä".repeat(63), "ä".repeat(64), "x".repeat(4200),
            "x".repeat(4200) + "ä"
        };
        for (int i = 0; i < texts.length; i++) {
            add("string " + i, Object.class, texts[i]);
        }
        for (String number : List.of("0", "1", "10", "-1", "255", "123456789012345678901234567890")) {
            add("BigInteger " + number, BigInteger.class, new BigInteger(number));
        }
        for (String number : List.of("0", "0.00", "1", "10", "-12.50", "1E+5", "123456789012345678901234567890.123")) {
            add("BigDecimal " + number, BigDecimal.class, new BigDecimal(number));
        }
        add("level", Level.class, Level.LOW);
        add("level with a body", Level.class, Level.HIGH);
        add("level in a list", List.class, new ArrayList<>(List.of(Level.LOW, Level.HIGH)));
        add("date", Date.class, new Date(1600000000123L));
        add("date before 1970", Date.class, new Date(-1L));
        add("sql date", java.sql.Date.class, new java.sql.Date(1600000000000L));
        add("sql time", java.sql.Time.class, new java.sql.Time(3600000L));
        java.sql.Timestamp timestamp = new java.sql.Timestamp(1600000000123L);
        timestamp.setNanos(123456789);
        add("sql timestamp", java.sql.Timestamp.class, timestamp);
        timestamp = new java.sql.Timestamp(-1500L);
        timestamp.setNanos(5);
        add("sql timestamp before 1970", java.sql.Timestamp.class, timestamp);
        add("uuid", UUID.class, UUID.fromString("01234567-89ab-cdef-fedc-ba9876543210"));
        add("uri", URI.class, URI.create("http://example.org/a?b"));
        add("pattern", Pattern.class, Pattern.compile("a+", Pattern.CASE_INSENSITIVE));
        add("locale", Locale.class, Locale.GERMANY);
        add("address", InetSocketAddress.class, InetSocketAddress.createUnresolved("localhost", 80));
        add("currency", Currency.class, Currency.getInstance("EUR"));
        add("string builder", StringBuilder.class, new StringBuilder("built"));
        add("string buffer", StringBuffer.class, new StringBuffer("buffered"));
        add("class", Class.class, String.class);
        add("time zone", TimeZone.class, TimeZone.getTimeZone("Europe/Zurich"));
        GregorianCalendar calendar = new GregorianCalendar(TimeZone.getTimeZone("UTC"), Locale.ROOT);
        calendar.setTimeInMillis(1600000000123L);
        add("calendar", GregorianCalendar.class, calendar);
        add("bits", BitSet.class, BitSet.valueOf(new long[] {0x8000000000000001L, 0, 6}));
        add("no bits", BitSet.class, new BitSet());
        add("instant", Instant.class, Instant.ofEpochSecond(1600000000L, 123456789));
        add("instant before 1970", Instant.class, Instant.ofEpochSecond(-5, 7));
        add("local date", LocalDate.class, LocalDate.of(2024, 2, 29));
        add("local date before year 1", LocalDate.class, LocalDate.of(-5, 1, 2));
        add("local time, hours", LocalTime.class, LocalTime.of(13, 0));
        add("local time, minutes", LocalTime.class, LocalTime.of(13, 5));
        add("local time, seconds", LocalTime.class, LocalTime.of(13, 5, 7));
        add("local time, nanos", LocalTime.class, LocalTime.of(13, 5, 7, 9));
        add("local date time", LocalDateTime.class, LocalDateTime.of(2024, 2, 29, 13, 5, 7, 9000));
        add("duration", Duration.class, Duration.ofSeconds(-5, 7));
        add("offset date time", OffsetDateTime.class, OffsetDateTime.of(2024, 2, 29, 13, 5, 0, 0, ZoneOffset.ofHoursMinutes(-3, -30)));
        add("duration of hours", Duration.class, Duration.ofSeconds(3600 * 25 + 61, 500_000_000));
        add("period", Period.class, Period.of(1, -2, 3));
        add("year", Year.class, Year.of(2024));
        add("year and month", YearMonth.class, YearMonth.of(2024, 2));
        add("month and day", MonthDay.class, MonthDay.of(2, 29));
        add("offset time", OffsetTime.class, OffsetTime.of(13, 5, 0, 0, ZoneOffset.ofHours(2)));
        add("zoned date time", ZonedDateTime.class, ZonedDateTime.of(2024, 7, 1, 13, 5, 0, 0, ZoneId.of("Europe/Zurich")));
        add("zone", ZoneId.class, ZoneId.of("Europe/Zurich"));
        add("zone offset", ZoneOffset.class, ZoneOffset.ofTotalSeconds(3601));
    }

    private void collections() throws Exception {
        add("ArrayList", List.class, new ArrayList<>(List.of("a", "bc")));
        add("ArrayList, empty", List.class, new ArrayList<>());
        add("ArrayList of ArrayList class", ArrayList.class, new ArrayList<>(List.of(1L)));
        add("ArrayList, mixed", List.class, new ArrayList<>(Arrays.asList(1, "b", null, 2.5)));
        add("ArrayList, nulls", List.class, new ArrayList<>(Arrays.asList(null, null)));
        add("ArrayList, some null", List.class, new ArrayList<>(Arrays.asList("a", null, "c")));
        add("ArrayList, longs", List.class, new ArrayList<>(List.of(1L, -1L, Long.MAX_VALUE)));
        add("ArrayList, many", List.class, new ArrayList<>(Collections.nCopies(200, 7)));
        String shared = "shared text";
        add("ArrayList, same object twice", List.class, new ArrayList<>(List.of(shared, shared)));
        List<Object> inner = new ArrayList<>(List.of("x"));
        add("ArrayList, same list twice", List.class, new ArrayList<>(List.of(inner, inner)));
        add("ArrayList, equal objects", List.class, new ArrayList<>(List.of(new Date(1), new Date(1))));
        List<Object> cycle = new ArrayList<>();
        cycle.add(cycle);
        add("ArrayList in itself", List.class, cycle);
        add("LinkedList", List.class, new LinkedList<>(List.of(1, 2)));
        add("Vector", List.class, new Vector<>(List.of(1, 2)));
        add("ArrayDeque", Object.class, new ArrayDeque<>(List.of(1, 2)));
        add("HashSet", Set.class, new HashSet<>(Set.of("s")));
        add("LinkedHashSet", Set.class, new LinkedHashSet<>(List.of(2, 1)));
        add("TreeSet", Set.class, new TreeSet<>(Set.of("t", "s")));
        add("TreeSet, comparator", Set.class, reversed());
        add("PriorityQueue", PriorityQueue.class, new PriorityQueue<>(List.of(3, 1, 2)));
        add("HashMap", Map.class, new HashMap<>(Map.of("k", 1L)));
        add("HashMap, empty", Map.class, new HashMap<>());
        add("HashMap, nulls", Map.class, new HashMap<>(Collections.singletonMap(null, null)));
        add("HashMap, integers", Map.class, new HashMap<>(Map.of(1, "a", 2, "b")));
        add("LinkedHashMap", Map.class, linked());
        add("TreeMap", Map.class, new TreeMap<>(Map.of("b", 1, "a", 2)));
        add("ConcurrentHashMap", Map.class, new ConcurrentHashMap<>(Map.of("k", 1L)));
        EnumMap<Level, String> enumMap = new EnumMap<>(Level.class);
        enumMap.put(Level.LOW, "l");
        add("EnumMap", Object.class, enumMap);
        add("EnumSet", Object.class, EnumSet.of(Level.LOW));
        add("HashMap of lists", Map.class, new HashMap<>(Map.of("k", new ArrayList<>(List.of("v", "w")))));
        add("Arrays.asList", List.class, Arrays.asList("a", "b"));
        add("Arrays.asList, mixed", List.class, Arrays.asList(1, "b", null));
        add("Arrays.asList, empty", List.class, Arrays.asList());
        add("emptyList", List.class, Collections.emptyList());
        add("emptyMap", Map.class, Collections.emptyMap());
        add("emptySet", Set.class, Collections.emptySet());
        add("singletonList", List.class, Collections.singletonList("s"));
        add("singletonMap", Map.class, Collections.singletonMap("k", 1));
        add("singleton", Set.class, Collections.singleton("s"));
        add("unmodifiableList", List.class, Collections.unmodifiableList(new ArrayList<>(List.of("a"))));
        add("unmodifiableMap", Map.class, Collections.unmodifiableMap(new HashMap<>(Map.of("k", 1))));
        add("unmodifiableSet", Set.class, Collections.unmodifiableSet(new HashSet<>(List.of("a"))));
        add("List.of", List.class, List.of());
        add("List.of 1", List.class, List.of("a"));
        add("List.of 3", List.class, List.of("a", "b", "c"));
        add("Set.of 1", Set.class, Set.of("a"));
        add("Map.of 1", Map.class, Map.of("a", 1));
        add("Optional", Object.class, Optional.of("o"));
        add("Optional, empty", Object.class, Optional.empty());
        add("OptionalInt", Object.class, OptionalInt.of(4));
        add("OptionalLong", Object.class, OptionalLong.of(-4));
        add("OptionalDouble", Object.class, OptionalDouble.empty());
        add("AtomicInteger", Object.class, new AtomicInteger(-5));
        add("AtomicBoolean", Object.class, new AtomicBoolean(true));
        add("nCopies", List.class, Collections.nCopies(2, "n"));
        add("AtomicLong", Object.class, new AtomicLong(5));
        add("byte[]", Object.class, new byte[] {1, -1});
        add("boolean[]", Object.class, new boolean[] {true, false});
        add("char[]", Object.class, new char[] {'a', 'ß'});
        add("short[]", Object.class, new short[] {1, -300});
        add("int[]", Object.class, new int[] {1, -1, 300});
        add("long[]", Object.class, new long[] {1, -1, 1L << 40});
        add("float[]", Object.class, new float[] {0.5f});
        add("double[]", Object.class, new double[] {0.5});
        add("String[]", Object.class, new String[] {"a", null, "b"});
        add("String[], same twice", Object.class, new String[] {shared, shared});
        add("Object[]", Object.class, new Object[] {1, "b", null});
        add("Integer[]", Object.class, new Integer[] {1, null});
        add("int[][]", Object.class, new int[][] {{1}, {2, 3}, null});
        add("List[]", Object.class, new List[] {new ArrayList<>(List.of("a"))});
        add("Money[]", Object.class, new Money[] {new Money(1, "EUR"), null});
    }

    private void objects() throws Exception {
        add("money", Money.class, new Money(5, "EUR"));
        add("money without currency", Money.class, new Money(-5, null));
        add("tip", Money.class, new Tip(7, "CHF", 0.25));
        add("monies", List.class, new ArrayList<>(List.of(new Money(1, "A"), new Money(2, "A"), new Tip(3, "B", null))));
        Money same = new Money(9, "Z");
        add("same money twice", List.class, new ArrayList<>(List.of(same, same)));
        add("side", Side.class, Side.RIGHT);
        add("sides", List.class, new ArrayList<>(List.of(Side.RIGHT, Side.LEFT)));
        add("side as object", Object.class, Side.LEFT);
        add("EnumMap of sides", Object.class, new EnumMap<>(Map.of(Side.LEFT, 1)));
        add("point", Point.class, new Point(-1, 2, "p"));
        add("everything", Everything.class, new Everything());
    }

    private static Collection<String> reversed() {
        Set<String> set = new TreeSet<>(Collections.reverseOrder());
        set.add("a");
        set.add("b");
        return set;
    }

    private static Map<String, Object> linked() {
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("b", 1);
        map.put("a", "text");
        map.put("c", null);
        return map;
    }

    private void add(String name, Class<?> type, Object value) throws Exception {
        KryoSerializer<Object> serializer = serializer(type);
        var entry = cases.addObject().put("name", name).put("type", type.getName());
        registered.forEach(each -> entry.withArray("registered").add(each.getName()));
        try (ByteArrayOutputStream bytes = new ByteArrayOutputStream()) {
            TypeSerializerSnapshot.writeVersionedSnapshot(new DataOutputViewStreamWrapper(bytes), serializer.snapshotConfiguration());
            if (shown.add(type)) {
                entry.put("snapshot", HexFormat.of().formatHex(bytes.toByteArray()));
            }
        }
        try (ByteArrayOutputStream bytes = new ByteArrayOutputStream()) {
            serializer.serialize(value, new DataOutputViewStreamWrapper(bytes));
            entry.put("bytes", HexFormat.of().formatHex(bytes.toByteArray()));
        } catch (RuntimeException e) {
            entry.put("refused", e.getClass().getName());
        }
    }

    /** The configuration class was made in Flink 1.19 and replaced by an interface in 2.0, so both go by name. */
    @SuppressWarnings("unchecked")
    private KryoSerializer<Object> serializer(Class<?> type) throws Exception {
        Class<?> kind = Class.forName("org.apache.flink.api.common.serialization.SerializerConfig");
        Object config = Class.forName(kind.getName() + "Impl").getConstructor().newInstance();
        for (Class<?> each : registered) {
            config.getClass().getMethod("registerKryoType", Class.class).invoke(config, each);
        }
        TypeSerializer<?> serializer = KryoSerializer.class.getConstructor(Class.class, kind).newInstance(type, config);
        return (KryoSerializer<Object>) serializer;
    }
}
