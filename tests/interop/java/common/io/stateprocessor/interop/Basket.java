package io.stateprocessor.interop;

import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** A POJO whose collections Flink 1.x leaves to Kryo; Flink 2.x has serializers for all but the last two. */
public class Basket {
    public String owner;
    public LocalDate since;
    public List<String> items;
    public Set<Long> codes;
    public Map<String, Integer> counts;
    public Collection<Double> prices;
    public List<LocalDate> days;
    public Set<Tier> tiers;
    public List<byte[]> images;
    public List<Line> lines;
    public Line best;
    public List<Integer> never;
    public List<List<String>> nested;
    public ArrayList<String> notes;
}
