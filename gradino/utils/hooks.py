"""What registering a hook returns, where PyTorch has it."""

from gradino._calls import RemovableHandle

__all__ = ["RemovableHandle"]
