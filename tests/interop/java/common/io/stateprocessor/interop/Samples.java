package io.stateprocessor.interop;

import fixtures.Account;
import fixtures.Address;
import fixtures.Circle;
import fixtures.Maybe;
import fixtures.Shape;
import fixtures.Simple;
import fixtures.Square;
import fixtures.Tier;
import fixtures.UserKey;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.stream.IntStream;

/** The i-th value of classes that cases share, each with its edges among the first few. */
final class Samples {

    private static final List<String> TEXTS =
            List.of("", "plain", "ünïcödé ✓", "日本語", "emoji 😀", "nul\u0000\u007f\u0080\u3fff\u4000", "x".repeat(300), "tab\tline\n");
    private static final List<Long> NUMBERS =
            List.of(0L, 1L, -1L, Long.MAX_VALUE, Long.MIN_VALUE, 1L << 32, 9007199254740993L, 3_000_000_000L);

    static String text(int i) {
        return i < TEXTS.size() ? TEXTS.get(i) : TEXTS.get(i % 4) + "#" + i;
    }

    static long number(int i) {
        return i < NUMBERS.size() ? NUMBERS.get(i) : 0x9E3779B97F4A7C15L * i;
    }

    static double real(int i) {
        double[] edges = {0.0, -0.0, 0.1, Double.NaN, Double.POSITIVE_INFINITY, Double.MIN_VALUE};
        return i < edges.length ? edges[i] : number(i) / 1e9;
    }

    static UserKey userKey(int i) {
        UserKey key = new UserKey();
        key.tenant = "tenant-" + i % 3;
        key.id = i;
        return key;
    }

    static Simple simple(int i) {
        Simple simple = new Simple();
        simple.seq = number(i);
        simple.text = i % 4 == 3 ? null : text(i);
        simple.score = i % 5 == 4 ? null : Double.valueOf(real(i));
        return simple;
    }

    static Address address(int i) {
        Address address = new Address();
        address.street = i % 3 == 1 ? null : "Street " + i;
        address.city = text(i);
        address.zip = 10_000 + i;
        return address;
    }

    static Account account(int i) {
        Account account = new Account();
        account.id = text(i);
        account.level = (int) number(i);
        account.balance = number(i) / 100.0;
        account.active = i % 2 == 1;
        account.tier = Tier.values()[i % 3];
        account.visits = number(i);
        account.limit = new BigDecimal(BigInteger.valueOf(number(i)), i % 6);
        account.since = LocalDate.of(1 + 250 * (i % 30), 1 + i % 12, 1 + i % 28);
        account.blob = i % 5 == 3 ? null : new byte[] {(byte) i, -1, (byte) (7 * i)};
        account.address = i % 3 == 2 ? null : address(i);
        account.tags = new ArrayList<>(IntStream.range(0, i % 3).mapToObj(n -> "tag-" + n + "-" + text(i)).toList());
        account.counters = new LinkedHashMap<>();
        for (int n = 0; n < i % 4; n++) {
            account.counters.put("c" + n, number(i + n));
        }
        return account;
    }

    /** Shapes of the class, of its registered subclass, and of one that nobody registers. */
    static Shape shape(int i) {
        Shape shape;
        if (i % 3 == 1) {
            Circle circle = new Circle();
            circle.radius = i / 2.0;
            shape = circle;
        } else if (i % 3 == 2) {
            Square square = new Square();
            square.side = 3L * i;
            square.label = i % 2 == 0 ? null : "label " + i;
            shape = square;
        } else {
            shape = new Shape();
        }
        shape.name = i % 4 == 0 ? null : "shape-" + i;
        shape.order = i;
        return shape;
    }

    static BitSet bits(int i) {
        BitSet bits = new BitSet();
        for (int n = 0; n < i % 5; n++) {
            bits.set((i * 7 + n * 31) % 130);
        }
        return bits;
    }

    static Maybe maybe(int i) {
        return new Maybe(i % 4 == 2 ? null : text(i), i);
    }

    static Address[] addresses(int i) {
        Address[] addresses = new Address[i % 3];
        Arrays.setAll(addresses, n -> n == 1 ? null : address(i + n));
        return addresses;
    }

    private Samples() {}
}
