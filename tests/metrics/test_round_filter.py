import pytest

from specmon.core.errors import UsageError
from specmon.core.events import Round
from specmon.core.metrics.round_filter import parse_filter


@pytest.fixture
def rounds(stream, plan):
    """Accepted 2, 0, 4, 1 of 4; the second missed by rank, the third late; the last has no outcome."""
    plans = [plan(2), plan(0, outcome="rank"), plan(4, outcome="late"), plan(1)]
    return [event for event in stream(plans) if isinstance(event, Round)]


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("miss", [1, 2]),
        ("late", [2]),
        (" RANK ", [1]),
        ("hit", [0]),
        ("a<2", [1, 3]),
        ("a<=2, a>0", [0, 3]),
        ("miss, a>=4", [2]),
        ("k=4", [0, 1, 2, 3]),
        ("ms > 6.05", [0, 2, 3]),
        ("verify>4", []),
        ("#=3", [3]),
        ("kv>16", [2, 3]),
    ],
)
def test_filter_chooses(rounds, text, chosen):
    wanted = parse_filter(text)
    assert [r.index for r in rounds if wanted(r)] == chosen


@pytest.mark.parametrize("text", ["", " , ", "a", "a<", "a<-1", "missed", "a<2 miss", "b<1", "a<2;"])
def test_what_is_no_condition_is_refused(text):
    with pytest.raises(UsageError, match="condition"):
        parse_filter(text)
