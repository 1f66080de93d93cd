import pytest


@pytest.fixture(autouse=True, scope="module")
def elsewhere(tmp_path_factory):
    """A home directory that holds no test's files, so that messages show their paths in full."""
    with pytest.MonkeyPatch.context() as patch:
        home = str(tmp_path_factory.mktemp("nobody"))
        patch.setenv("HOME", home)
        patch.setenv("USERPROFILE", home)
        yield
