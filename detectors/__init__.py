"""The registry of all detectors. `detectors` is the pure core: records in, incidents out, no Spark, Kafka or clock.

Each module in a folder of `kinds` has one detector, whose kind is the module's name. It is found there and needs no
registration.
"""

from importlib import import_module
from pkgutil import walk_packages

from detectors import kinds
from detectors.detector import Detector

_NAMES = [found.name for found in walk_packages(kinds.__path__, f"{kinds.__name__}.") if not found.ispkg]
_MODULES = [import_module(name) for name in sorted(_NAMES, key=lambda name: name.rpartition(".")[2])]

DETECTORS: tuple[type[Detector], ...] = tuple(
    found
    for module in _MODULES
    for found in vars(module).values()
    if isinstance(found, type) and issubclass(found, Detector) and found.__module__ == module.__name__
)
