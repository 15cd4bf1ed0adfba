"""All jobs below directories: one ``table`` with ``measures``; ``finding`` and ``erasing`` in their state."""
