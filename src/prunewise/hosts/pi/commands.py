"""stub"""
from collections.abc import Generator
COMPLETIONS = {}
class Dialogs:
    def __init__(self, s): pass
    def begin(self, p): pass
    def go_on(self, p): pass
