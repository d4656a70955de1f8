"""One message in many versions: a layer is made when a version is first met, and versions of equal layout share it."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from wiredecode.fields.layer import Layer


@dataclass(eq=False)
class Versions:
    """The versions ``first`` to ``last`` of a message.

    ``layout`` returns what a version is made of, as something that can be compared; ``make`` makes the layer of that
    layout, and is given the lowest version that has it.
    """

    name: str
    first: int
    last: int
    layout: Callable[[int], Hashable]
    make: Callable[[Any, int], type[Layer]]
    _by_version: dict[int, type[Layer]] = field(default_factory=dict, init=False)

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def layer(self, version: int) -> type[Layer]:
        """The layer of a version, which is that of the lowest of equal layout; KeyError if there is no such version."""
        if version not in self._by_version:
            if version not in self:
                raise KeyError(version)
            layout = self.layout(version)
            lowest = next(each for each in range(self.first, version + 1) if self.layout(each) == layout)
            self._by_version[version] = self.make(layout, version) if lowest == version else self.layer(lowest)
        return self._by_version[version]

    def layers(self) -> list[type[Layer]]:
        return list(dict.fromkeys(self.layer(version) for version in range(self.first, self.last + 1)))
