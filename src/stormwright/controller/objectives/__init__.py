"""What a placement is to be good at, by prediction, and which placements have proved not to be."""
