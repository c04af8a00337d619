"""A shop to look at: orders, payments, shipping and notifications, live or as instant history."""
