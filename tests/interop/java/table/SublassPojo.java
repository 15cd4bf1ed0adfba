/** A registered subclass, of the name that Flink's own specimens have for it. */
public class SublassPojo extends BasePojo {
    public boolean subclassFieldC = true;
    public double subclassFieldD = 66.7;
}
