"""Values of one type read as another.

``resolution`` has Flink's rules for schemas that evolve. ``migration`` and ``migrated_values`` convert types and values of Flink
1.x to 2.x, by what ``type_extractor`` infers for a class and what ``removed_classes`` lists.
"""
