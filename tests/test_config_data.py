"""Sources of tasks in a recipe."""

import pytest
from pydantic import ValidationError

from seminar.settings import File


def test_a_mapping_names_only_fields_of_a_task() -> None:
    assert File(path="own.jsonl", columns={"gold": "label"}).columns == {"gold": "label"}
    with pytest.raises(ValidationError, match="'question', 'gold', 'choices'"):
        File.model_validate({"path": "own.jsonl", "columns": {"answer": "label"}})
