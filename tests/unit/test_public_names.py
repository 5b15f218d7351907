"""What `import holdfast` gives: the names that docs/versions.md promises to keep."""

import inspect

import holdfast
from holdfast import errors


def test_every_error_that_a_user_can_meet_is_a_name_of_holdfast() -> None:
    kinds = inspect.getmembers(errors, lambda each: isinstance(each, type) and issubclass(each, errors.HoldfastError))
    assert kinds
    assert all(getattr(holdfast, name) is kind and name in holdfast.__all__ for name, kind in kinds)


def test_every_public_name_exists() -> None:
    assert all(hasattr(holdfast, name) for name in holdfast.__all__)
