"""What a program spends its time on: per-op time, bytes, operations and share of what the machine can do."""

from gradino.profiler.events import Average, Averages, Event, KernelEvent
from gradino.profiler.recording import ProfilerActivity, profile, record_function

__all__ = ["Average", "Averages", "Event", "KernelEvent", "ProfilerActivity", "profile", "record_function"]
