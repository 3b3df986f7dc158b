"""Running recorded sessions through the engine, LLM call by LLM call: what pruning saves, costs and loses."""
