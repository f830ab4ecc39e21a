"""The bugs that mutate.py plants: each is one textual change of one line of CUDA source."""
import re

# Name, pattern, replacement. A pattern applies to a line of code at every place where it matches.
OPERATORS = [
    ("barrier removed", r"\b__syncthreads\(\);", ";"),
    ("warp barrier removed", r"\b__syncwarp\([^)]*\);", ";"),
    ("event wait removed", r"^\s*(LOCKSTEP_CUDA_CHECK\()?cudaStreamWaitEvent\(.*\);\s*$", ";"),
    ("event record removed", r"^\s*(LOCKSTEP_CUDA_CHECK\()?cudaEventRecord\(.*\);\s*$", ";"),
    ("synchronisation removed",
     r"^\s*(LOCKSTEP_CUDA_CHECK\()?cuda(Stream|Event|Device)Synchronize\(.*\);\s*$", ";"),
    ("fill removed", r"^\s*(LOCKSTEP_CUDA_CHECK\()?cudaMemsetAsync\(.*\);\s*$", ";"),
    ("atomic made plain", r"\batomicAdd\(&?([^,]+), ([^;]+)\);", r"*(\1) += \2;"),
    ("half of the warp", r"\b0xffffffffu\b", "0x0000ffffu"),
    ("one too many", r"(?<=[\w)\]] )<(?= [\w(])", "<="),
    ("guard off by one", r"(?<=[\w)\]] )>=(?= [\w(])", ">"),
    ("starts at one", r"(?<== )0\.0f\b", "1.0f"),
    ("distance halved", r">>= 1\b", ">>= 2"),
    ("shared memory too small", r"\* sizeof\(\w+\)(?=, stream)", ""),
    ("thread's own index", r"\bthreadIdx\.x \+ blockDim\.x\b", "threadIdx.x"),
    ("returns before a barrier", r"^(\s*)(__syncthreads\(\);)",
     r"\1if (threadIdx.x == 1) return;\n\1\2"),
]
COMMENT = re.compile(r"//.*$")
# Templates and includes are full of < and > that are no comparisons.
NO_COMPARISON = re.compile(r"^\s*(#|template\b|static_assert\b)")


class Mutant:
    """One bug: `path` with line `number` replaced."""

    def __init__(self, path, number, operator, before, after):
        self.path, self.number, self.operator = path, number, operator
        self.before, self.after = before, after

    def __str__(self):
        return f"{self.path}:{self.number}: {self.operator}: {self.before.strip()}"

    def key(self):
        """Names the mutant without its line number, for the list of known survivors."""
        return f"{self.path}: {self.operator}: {self.before.strip()}"

    def apply(self, text):
        lines = text.split("\n")
        assert lines[self.number - 1] == self.before, self
        lines[self.number - 1] = self.after
        return "\n".join(lines)


def find(path, text):
    """All mutants of one file."""
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        code = COMMENT.sub("", line)
        if not code.strip():
            continue
        for name, pattern, replacement in OPERATORS:
            if name in ("one too many", "guard off by one") and NO_COMPARISON.match(code):
                continue
            for match in re.finditer(pattern, code):
                after = code[: match.start()] + match.expand(replacement) + code[match.end():]
                found.append(Mutant(path, number, name, line, after))
    return found
