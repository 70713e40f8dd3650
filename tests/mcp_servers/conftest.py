"""Programs of others that speak MCP."""

from __future__ import annotations

import pytest

from tests.foreign import Foreign, install_foreign


@pytest.fixture(scope="session")
def foreign() -> Foreign:
    """The official TypeScript client, the inspector and the conformance suite."""
    return install_foreign()
