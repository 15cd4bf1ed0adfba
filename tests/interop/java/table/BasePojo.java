/** What {@link SublassPojo} extends. */
public class BasePojo {
    public int baseFieldA = 911108;
    public String baseFieldB = "Gordon";
}
