"""``FlinkKafkaConsumer`` and ``FlinkKinesisConsumer``, the sources before FLIP-27: classes that Kryo wrote into their state."""
