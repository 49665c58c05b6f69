"""Made-up and remade data with the schema and sizes of the originals, the same on every machine."""
