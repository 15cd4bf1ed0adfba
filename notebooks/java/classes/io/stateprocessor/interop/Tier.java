package io.stateprocessor.interop;

/** An enumeration. */
public enum Tier {
    BRONZE,
    SILVER,
    GOLD
}
