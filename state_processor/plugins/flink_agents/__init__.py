"""Flink Agents: the classes of an agent's memory, tasks and events, and the tree that memory is."""

from state_processor.plugins.flink_agents.memory import corrected_objects as corrected_objects
from state_processor.plugins.flink_agents.serializers import describe as describe
