package io.stateprocessor.interop;

import java.util.List;

/** A line of a {@link Basket}: a POJO where Flink looks at it, an object of any class where Kryo does. */
public class Line {
    public String product;
    public int pieces;
    public List<String> remarks;

    public Line() {}

    Line(String product, int pieces, List<String> remarks) {
        this.product = product;
        this.pieces = pieces;
        this.remarks = remarks;
    }
}
