"""The detector `learned`: what it reads off the rows, its trees and its cause head, and how they are trained."""
