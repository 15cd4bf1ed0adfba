"""Serializers of the runtime and its libraries: TTL, timers, windows, CEP, Scala, Gelly."""
