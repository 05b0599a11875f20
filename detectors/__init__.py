"""The registry of all detectors. `detectors` is the pure core: records in, incidents out, no Spark, Kafka or clock.

Each module of `kinds` has one detector, whose kind is the module's name. It is found there and needs no registration.
"""

from importlib import import_module
from pkgutil import iter_modules

from detectors import kinds
from detectors.detector import Detector

_MODULES = [import_module(f"{kinds.__name__}.{name}") for name in sorted(m.name for m in iter_modules(kinds.__path__))]

DETECTORS: tuple[type[Detector], ...] = tuple(
    found
    for module in _MODULES
    for found in vars(module).values()
    if isinstance(found, type) and issubclass(found, Detector) and found.__module__ == module.__name__
)
