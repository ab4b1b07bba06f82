"""A data set on disk: schema, telemetry, labels, checksums, and the sample that ships with the package."""
