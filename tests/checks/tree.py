"""What the checks share: the files of the tree, and how a check ends."""
import pathlib
import re
import subprocess
import sys


def files(pattern):
    """Yields (path, text) of the files whose path matches, ignored ones left out."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], check=True,
                            capture_output=True, text=True).stdout.splitlines()
    for path in sorted(set(listed)):
        if re.search(pattern, path) and pathlib.Path(path).is_file():
            yield path, pathlib.Path(path).read_text(encoding="utf-8")


def finish(summary, found):
    """Prints the problems and the summary; the exit status says whether there were any."""
    print("\n".join(found + [f"{summary}, {len(found)} problems"]))
    sys.exit(1 if found else 0)
