"""Wire formats: what stands in the files, and nothing that acts on them."""
