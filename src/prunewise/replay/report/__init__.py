"""Reports of a replay: one module a kind of output. They show totals, and work out nothing themselves."""
