"""A scenario shown while it trains, and the symptoms of the catalogue."""
