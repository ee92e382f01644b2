"""One word, one meaning: no two classes of the library have one name."""

import ast
from collections import defaultdict
from pathlib import Path

import keepset

PACKAGE = Path(keepset.__file__).parent


def test_a_class_name_means_one_thing() -> None:
    homes = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        file = path.relative_to(PACKAGE).as_posix()
        if not file.startswith("paper/"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    homes[node.name].append(file)
    assert len(homes) > 50
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}
