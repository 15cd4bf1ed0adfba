package io.stateprocessor.interop;

/** A POJO inside a POJO. */
public class Address {
    public String street;
    public String city;
    public int zip;

    public Address() {}

    public Address(String street, String city, int zip) {
        this.street = street;
        this.city = city;
        this.zip = zip;
    }
}
