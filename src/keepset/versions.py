"""Which packages run."""

import platform
from importlib.metadata import PackageNotFoundError, version


def package_versions() -> dict[str, str]:
    """What the run used."""
    found = {"python": platform.python_version()}
    for package in ("keepset", "torch", "transformers", "numpy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
