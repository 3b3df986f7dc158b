"""One conversation's part in a request, without I/O: which one it is, and how much of it is known."""
