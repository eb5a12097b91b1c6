"""Rows to lines and back, cut anywhere."""

import json
import math
import os
import resource
from pathlib import Path

import pyarrow.json
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seminar.errors import RunError
from seminar.jsonl import JsonLines, RowFile, encode, read_rows
from seminar.types import Score, Verdict

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
some_rows = st.lists(st.dictionaries(st.text(), anything, max_size=3), max_size=6)


@settings(max_examples=60, deadline=None)
@given(rows=some_rows)
def test_every_row_comes_back_as_it_went_in_on_one_line(rows: list[dict[str, object]]) -> None:
    lines = b"".join(encode(row) for row in rows)
    assert lines.count(b"\n") == len(rows)
    assert [json.loads(line) for line in lines.split(b"\n")[:-1]] == rows


@settings(max_examples=40, deadline=None)
@given(rows=some_rows.filter(bool), data=st.data())
def test_a_file_cut_at_any_byte_opens_with_its_whole_lines(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, object]], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("cut") / "rows.jsonl"
    whole = b"".join(encode(row) for row in rows)
    kept = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:kept])
    lines = JsonLines(path)
    assert lines.num_rows == whole[:kept].count(b"\n")
    assert list(read_rows(path)) == rows[: lines.num_rows]
    assert path.stat().st_size == lines.size
    lines.append(rows[lines.num_rows :])
    assert path.read_bytes() == whole
    lines.close()


def test_text_that_is_not_unicode_comes_back_whole() -> None:
    assert json.loads(encode({"a": "\ud800 \u2028"})) == {"a": "\ud800 \u2028"}


def test_numbers_json_lacks_are_written_as_null_and_words() -> None:
    row = {"a": math.nan, "b": [math.inf, -math.inf, 1.5, True]}
    assert encode(row) == b'{"a": null, "b": ["inf", "-inf", 1.5, true]}\n'


def test_dataclasses_become_objects_whether_or_not_a_number_is_missing() -> None:
    verdict = Verdict(correct=True, reason="correct", extracted="4")
    assert json.loads(encode({"v": Score(parts={"a": 1.0}, total=2.0, verdict=verdict)})) == {
        "v": {
            "parts": {"a": 1.0},
            "total": 2.0,
            "verdict": {"correct": True, "reason": "correct", "extracted": "4", "parts": {}},
        }
    }
    assert json.loads(encode({"v": Score(parts={}, total=math.nan)}))["v"]["total"] is None


def test_a_value_that_is_no_data_is_refused() -> None:
    with pytest.raises(TypeError, match="a log row holds a set"):
        encode({"a": {1}})


def test_a_strict_reader_of_others_reads_our_lines(tmp_path: Path) -> None:
    lines = JsonLines(tmp_path / "m.jsonl")
    lines.append([{"step": 0, "reward": 0.1}, {"step": 1, "reward": math.nan}, {"step": 2, "reward": 1e-7}])
    assert pyarrow.json.read_json(tmp_path / "m.jsonl").to_pydict() == {
        "step": [0, 1, 2],
        "reward": [0.1, None, 1e-7],
    }
    lines.close()


def test_cutting_behind_the_end_is_refused(tmp_path: Path) -> None:
    lines = JsonLines(tmp_path / "m.jsonl")
    lines.append([{"a": 1}])
    with pytest.raises(RunError, match="has 9 bytes, but 10 were written"):  # {"a": 1} and a newline
        lines.cut(10)
    lines.close()


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_text('{"a": 1}\n[2]\n{"a"\n')
    with pytest.raises(RunError, match="line 2 is not a JSON object"):
        list(read_rows(tmp_path / "m.jsonl"))
    (tmp_path / "m.jsonl").write_text('{"a": 1}\n{"a"\n')
    with pytest.raises(RunError, match="line 2 is not JSON"):
        list(read_rows(tmp_path / "m.jsonl"))


def test_a_write_the_system_breaks_off_leaves_no_part_of_a_row(tmp_path: Path) -> None:
    """RLIMIT_FSIZE makes the kernel take the first bytes of a write and refuse the rest, like a full disk."""
    path = tmp_path / "m.jsonl"
    child = os.fork()
    if child == 0:
        lines = JsonLines(path)
        lines.append([{"a": 1}])
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        try:
            lines.append([{"a": "x" * 500}])
        except RunError as error:
            os._exit(0 if "File too large" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert path.read_bytes() == b'{"a": 1}\n'


def test_a_table_grows_by_chunks_even_empty_ones(tmp_path: Path) -> None:
    with RowFile(tmp_path / "t.jsonl") as table:
        table.append([{"a": 1}, {"a": 2}])
        table.append([])
        table.append([{"a": 3}])
        assert (table.num_chunks, table.num_rows) == (3, 3)
        assert list(table.rows()) == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert (tmp_path / "t.jsonl").read_bytes() == b'{"a": 1}\n{"a": 2}\n{"a": 3}\n'


def test_a_table_killed_at_any_byte_of_a_chunk_opens_at_the_chunk_before(tmp_path: Path) -> None:
    path, ends = tmp_path / "t.jsonl", tmp_path / "t.jsonl.chunks"
    with RowFile(path) as table:
        table.append([{"a": 1}])
        first, first_end = path.read_bytes(), ends.read_bytes()
        table.append([{"a": 2}, {"a": 3}])
    second, second_end = path.read_bytes(), ends.read_bytes()
    # rows first, their end after them: a kill leaves part of the rows, or all rows and part of the end
    states = [(second[:n], first_end) for n in range(len(first), len(second) + 1)]
    states += [(second, second_end[:n]) for n in range(len(first_end), len(second_end))]
    for rows_left, ends_left in states:
        path.write_bytes(rows_left)
        ends.write_bytes(ends_left)
        with RowFile(path) as table:
            assert table.num_chunks == 1
            assert path.read_bytes() == first
            table.append([{"a": 2}, {"a": 3}])
        assert (path.read_bytes(), ends.read_bytes()) == (second, second_end)


def test_a_table_that_lost_rows_is_refused(tmp_path: Path) -> None:
    with RowFile(tmp_path / "t.jsonl") as table:
        table.append([{"a": 1}])
    (tmp_path / "t.jsonl").write_bytes(b"")
    with pytest.raises(RunError, match="has 0 bytes, but 9 were written"):
        RowFile(tmp_path / "t.jsonl")
