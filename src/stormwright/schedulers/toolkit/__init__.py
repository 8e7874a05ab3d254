"""What a scheduler of anyone may import: parameters, registry, description, isolation, limits of workers."""
