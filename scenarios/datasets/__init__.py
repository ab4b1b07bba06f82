"""Plans, their cost, and the data sets made from them."""
