"""The policy `learned`: what it sees, its trees, its weights, and how they are trained by training on."""
