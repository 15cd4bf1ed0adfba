package io.stateprocessor.interop;

/** The value of the larger benchmark: six fields, all of them made from the key's number. */
public class Customer {
    private static final String[] CITIES = {"Lisbon", "Oslo", "Kyoto", "Lyon", "Porto Alegre", "Kraków", "Accra", "Quito"};

    public long id;
    public String name;
    public String city;
    public double score;
    public int level;
    public boolean active;

    static Customer numbered(long number) {
        Customer customer = new Customer();
        customer.id = number;
        customer.name = "customer " + number;
        customer.city = CITIES[(int) (number % CITIES.length)];
        customer.score = number * 0.25;
        customer.level = (int) (number % 100);
        customer.active = number % 3 == 0;
        return customer;
    }
}
