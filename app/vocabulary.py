"""Write a text task's vocabulary: python -m app.vocabulary task=agnews task.data=PATH task.vocabulary=FILE.

Takes the overrides of the run that will use the file; the vocabulary is built from the training split.
"""

import sys

from app.config import ConfigError, compose, make
from clients.tasks.text import TextTask


def main() -> int:
    """The exit status: 0 written, 2 not."""
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
        return 0
    try:
        task = make(compose(sys.argv[1:]), "task")
        if not isinstance(task, TextTask) or task.vocabulary is None:
            raise ConfigError("task.vocabulary: give the file to write, and a text task such as task=agnews")
        vocabulary = task.build_vocabulary()
        vocabulary.write(task.vocabulary, f"min_count={task.min_count} of={task.source.hub} where={task.where}")
    except (OSError, ValueError) as error:
        print(f"fedslice: {error}", file=sys.stderr)
        return 2
    print(f"{task.vocabulary}: {len(vocabulary.tokens)} {task.tokens}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
