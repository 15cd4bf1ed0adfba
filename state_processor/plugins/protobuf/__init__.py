"""Messages of Protocol Buffers that serializers write, and the serializers of Stateful Functions."""
