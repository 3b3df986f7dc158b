from tests.stores.places import postgres_server

__all__ = ["postgres_server"]
