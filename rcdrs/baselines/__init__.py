"""The compared methods, one file each; each file's `build` makes its layer."""
