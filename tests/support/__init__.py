"""What the tests stand on: servers, databases, waiting."""
