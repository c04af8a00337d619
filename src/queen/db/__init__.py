"""Everything that talks to PostgreSQL itself: the embedded server, migrations, connections."""
