"""How little any placement can cost: proofs for small problems, relaxations for any."""
