"""Labels measured from telemetry: visible steps, their stability, and labels taken from another copy."""
