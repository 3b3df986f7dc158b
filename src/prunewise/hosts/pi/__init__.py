"""The host pi: an engine process of ours behind a TypeScript extension of pi's.

The extension (`extension/`) starts `python -m prunewise.hosts.pi` with each pi session and asks it
before each request. It holds as little as can be; what is decided is decided here.
"""
