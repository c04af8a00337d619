"""The generator style and the synchronous client and runtime of duroxide-python 0.2, on the same engine.

Their names are exported by `queen.durable`, so `import duroxide` becomes `from queen import durable as duroxide`.
"""
