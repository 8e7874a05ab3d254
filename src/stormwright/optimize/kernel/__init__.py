"""The machine code that all searching is made of: records of a placement, what a step costs, the step itself."""
