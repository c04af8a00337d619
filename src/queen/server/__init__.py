"""The broker: Queen's HTTP contract over the engine. Thin: the rules are the engine's."""
