"""Parts of a protocol for a few commands: modules of its package that are imported when they are needed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wiredecode.fields.layer import Layer
    from wiredecode.fields.lua import Script
    from wiredecode.frames.identity import IdentityReader
    from wiredecode.protocols.shared.problems import Checks
    from wiredecode.protocols.shared.redaction import Disguises

NO_IDENTITIES: Mapping[str | None, IdentityReader] = {}


class Offers(ABC):
    """A protocol, or one that another carries; see docs/add-a-protocol.md for the modules of its package."""

    name: ClassVar[str]
    """Prefix of its filter names."""
    summary_keys: ClassVar[tuple[str, ...]] = ()
    """Names of the fields that distinguish its messages, the best first: a line too long for a terminal keeps these."""

    @abstractmethod
    def layers(self) -> Iterable[type[Layer]]:
        """All message types, for the field catalogue."""

    def type_names(self) -> Iterable[str]:
        """Types of frames, those of carried protocols included: a filter knows no others."""
        return (layer.__name__ for layer in self.layers())

    def identities(self) -> Mapping[str | None, IdentityReader]:
        """By message type: what a frame says about its client or server; ``IDENTITIES`` of the module ``identity``."""
        return self._load("identity", "IDENTITIES", NO_IDENTITIES)  # type: ignore[no-any-return]

    def checks(self) -> Checks | None:
        """Checks of ``wiredecode check`` for its traffic: ``CHECKS`` of the module ``problems``."""
        return self._load("problems", "CHECKS", None)  # type: ignore[no-any-return]

    def disguises(self) -> Disguises:
        """Rules for ``wiredecode anonymize``, by filter name: ``DISGUISES`` of the module ``redaction``."""
        return self._load("redaction", "DISGUISES", {})  # type: ignore[no-any-return]

    def wireshark(self) -> Script | None:
        """Additions of ``wiredecode wireshark`` to its declarations: ``SCRIPT`` of the module ``wireshark``."""
        return self._load("wireshark", "SCRIPT", None)  # type: ignore[no-any-return]

    def _load(self, module: str, name: str, default: Any) -> Any:
        """``name`` in a module of the package of the protocol; ``default`` if there is none."""
        package = type(self).__module__.rpartition(".")[0]
        place = f"{package}.{module}"
        try:
            return getattr(import_module(place), name, default) if package else default
        except ModuleNotFoundError as error:
            if error.name != place:
                raise
            return default
