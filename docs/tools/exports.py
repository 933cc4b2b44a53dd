"""What the reference takes for public in packages whose names are loaded on first use."""

from typing import Any

import griffe


class LazyNames(griffe.Extension):
    """The stub of such a package imports its public names; griffe looks for `__all__`."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Export them."""
        for module in (pkg, *pkg.modules.values()):
            if "lazy_loader" in module.members:
                module.exports = [
                    name
                    for name, member in module.members.items()
                    if isinstance(member, griffe.Alias)
                    and member.target_path.startswith(f"{pkg.name}.")
                ]
