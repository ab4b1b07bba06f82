"""Policies of others: in confined processes of their own, and agents over the Model Context Protocol."""
