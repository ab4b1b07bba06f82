"""Claims of this project under results/ that are no speeds, each measured anew by its name."""
