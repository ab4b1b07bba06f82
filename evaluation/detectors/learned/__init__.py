"""The detector `learned`: its features, its trees and its weights. `evaluation.learning` trains it."""
