"""What `python -m gradino info` and `bench` are made of: this machine, its limits, and what the kernels reach of them."""
