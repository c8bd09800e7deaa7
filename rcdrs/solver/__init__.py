"""The solver core: programs, their affine set, the splitting step in two forms, the readout."""
