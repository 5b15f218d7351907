"""The newest batch that readers see, as status, metrics and the last line of a run say it."""

from typing import Any, cast

import pytest

from holdfast.identifiers import BatchId
from holdfast.runtime.run.publisher import Publisher


@pytest.mark.parametrize(("sink", "shown"), [(None, 5), (object(), 1)])
def test_a_writer_of_the_users_own_shows_each_batch_a_sink_of_holdfast_what_it_published(
    sink: object, shown: int
) -> None:
    others: Any = dict.fromkeys(("journal", "lanes", "post", "step"))
    publisher = Publisher(sink=cast(Any, sink), published=BatchId(1), **others)
    assert publisher.shown(BatchId(5)) == shown
