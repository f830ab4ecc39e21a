"""One run of `lockstep train` in which something is killed: starts it, strikes at a named point or
a moment, waits for the end, and finds what was left behind.

The rank (or launcher) that reaches the point stops itself; then the blow falls, from outside and
at a known time; then whoever stopped goes on, if it was not the victim.
"""
import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import uuid

WORLD_SIZE = 4
SMALL = ["--data", "digits", "--model", "mlp:64,64,64,10", "--bucket-cap-mb", "0.01"]
# Buckets of more than 256 KiB, which a thread of its own reduces while backward goes on.
LARGE = ["--data", "digits", "--model", "mlp:64,1200,64,10", "--bucket-cap-mb", "0.3"]
FILES = ["--json", "log", "--save", "weights"]
PATIENCE = 30.0  # after which a run hangs
SHARED_MEMORY = "/dev/shm"
FOLDER = "lockstep-fault-"
MARKER = "LOCKSTEP_FAULT_RUN"
WEIGHTS_ENDS = re.compile(r'"data_offsets":\[\d+,(\d+)\]')


@dataclasses.dataclass
class Case:
    """What is done to one run."""

    point: str  # where; "" for a random moment
    # A rank, "launcher", "all", "SIGINT", "SIGTERM"; "any": who triggers; None: the fault acts.
    victim: object
    trigger: object = None  # the rank, "launcher" or "any" rank that stops at the point
    count: int = 1  # the how-manieth time it comes there
    action: str = "stop"
    earlier: str = ""  # a fault that comes before, "POINT:RANK:ACTION"
    earlier_signal: int = 0  # sent to the launcher once all ranks are there
    delay: float = 0.0  # seconds, for a random moment
    arguments: list = dataclasses.field(default_factory=lambda: SMALL)
    epochs: int = 2
    timeout: int = 0
    alone: bool = False  # one hand-started rank, without a launcher
    namespace: bool = False  # as the first process of a PID namespace of its own

    def faults(self):
        own = [f"{self.point}:{self.trigger}:{self.action}:{self.count}"] if self.point else []
        return ",".join(([self.earlier] if self.earlier else []) + own)


@dataclasses.dataclass
class Outcome:
    status: int = 0  # as a shell sees it
    error: str = ""
    output: str = ""
    victim: int = -1  # the rank that the blow fell on
    struck: bool = False  # the blow fell on something that was there
    seconds: float = 0.0  # from the blow to the end of the launcher
    ranks_seconds: float = 0.0  # to the end of the last rank
    left: list = dataclasses.field(default_factory=list)  # processes and files
    hung: bool = False


def state_of(pid):
    """The letter that ps shows; "" for a process that is not there."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return stat.rpartition(") ")[2][:1]


def is_gone(pid):
    return state_of(pid) in ("", "Z", "X")


def children_of(pid):
    """In the order in which they were started."""
    try:
        return [int(p) for p in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def send(pid, number):
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False


def processes_of(marker):
    """Processes whose environment has the marker of a run."""
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            environment = pathlib.Path(entry.path, "environ").read_bytes()
        except OSError:
            continue
        if marker.encode() in environment and not is_gone(int(entry.name)):
            found.append(int(entry.name))
    return found


class Run:
    def __init__(self, binary, case):
        self.case = case
        self.marker = f"{MARKER}={uuid.uuid4().hex}"
        # In memory: a rank that waits for a busy disk cannot be killed until the disk is done.
        place = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=FOLDER, dir=place))
        self.work = self.folder / "work"
        self.work.mkdir()
        self.outcome = Outcome()
        self.ranks = []
        self.began = time.monotonic()
        name, value = self.marker.split("=")
        environment = dict(os.environ, TMPDIR=str(self.work), **{name: value})
        environment.pop("LOCKSTEP_FAULT", None)
        if case.faults():
            environment["LOCKSTEP_FAULT"] = case.faults()
        command = [binary, "train", "--epochs", str(case.epochs)] + case.arguments + FILES
        command += ["--rank", "0", "--world-size", "1"] if case.alone else (
            ["--nproc", str(WORLD_SIZE)])
        if case.timeout:
            command += ["--timeout", str(case.timeout)]
        if case.namespace:
            command = ["unshare", "--pid", "--fork", "--mount-proc"] + command
        with open(self.folder / "out", "wb") as out, open(self.folder / "err", "wb") as err:
            self.process = subprocess.Popen(
                command, cwd=self.work, env=environment, stdin=subprocess.DEVNULL, stdout=out,
                stderr=err, start_new_session=True)

    def execute(self):
        """Returns the outcome; nothing of the run is there afterwards, whatever happened."""
        try:
            self.strike_all()
            self.wait()
            self.look_for_leftovers()
        finally:
            for pid in processes_of(self.marker):
                send(pid, signal.SIGKILL)
            self.process.wait()
            shutil.rmtree(self.folder, ignore_errors=True)
        return self.outcome

    def launcher(self):
        if not self.case.namespace:
            return self.process.pid
        children = children_of(self.process.pid)
        return children[0] if children else 0

    def await_that(self, condition):
        """Polls until it is true or the run is over; returns what it was."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            value = condition()
            if value:
                return value
            if self.process.poll() is not None:
                return None
            time.sleep(0.0005)
        self.outcome.hung = True
        return None

    def stopped(self):
        """The pid of whoever has stopped at the point."""
        candidates = [self.launcher()] if self.case.trigger == "launcher" else self.see_ranks()
        return next((pid for pid in candidates if pid and state_of(pid) == "T"), None)

    def see_ranks(self):
        """The pids of the ranks in their order, those that have ended since included."""
        launcher = self.launcher()
        self.ranks += [p for p in children_of(launcher) if p not in self.ranks] if launcher else []
        return self.ranks

    def strike_all(self):
        case = self.case
        if case.earlier_signal:
            self.await_that(lambda: len(self.see_ranks()) == WORLD_SIZE)
            send(self.launcher(), case.earlier_signal)
        stopped = None
        if case.point and case.victim is not None:
            stopped = self.await_that(self.stopped)
            if stopped is None:
                self.outcome.left.append("the point was not reached")
                return
        elif case.delay:
            if isinstance(case.victim, int):
                self.await_that(lambda: len(self.see_ranks()) > case.victim)
            time.sleep(case.delay)
        self.see_ranks()
        self.began = time.monotonic()
        if case.victim is not None:
            self.strike(stopped)
        if stopped:
            send(stopped, signal.SIGCONT)

    def strike(self, stopped):
        victim, launcher = self.case.victim, self.launcher()
        if victim in ("SIGINT", "SIGTERM"):
            self.outcome.struck = launcher != 0 and not is_gone(launcher)
            if victim == "SIGINT":  # the terminal's foreground group
                os.killpg(self.process.pid, signal.SIGINT)
            elif launcher:
                send(launcher, signal.SIGTERM)
            return
        pids = {"launcher": [launcher], "all": [launcher] + self.ranks}.get(victim)
        if pids is None:
            pids = [stopped] if stopped and victim == self.case.trigger else (
                self.ranks[victim:victim + 1])
            self.outcome.victim = self.ranks.index(pids[0]) if pids else -1
        self.outcome.struck = bool(pids) and pids[0] != 0 and not is_gone(pids[0])
        for pid in pids:
            if pid:
                send(pid, signal.SIGKILL)

    def wait(self):
        outcome, deadline = self.outcome, time.monotonic() + PATIENCE
        ended = ranks_ended = None
        while ended is None or ranks_ended is None:
            now = time.monotonic()
            if now > deadline:
                outcome.hung = True
                return
            if ended is None and self.process.poll() is not None:
                ended = now
            if ranks_ended is None:
                if not self.ranks and ended is None:
                    self.see_ranks()
                elif all(is_gone(pid) for pid in self.ranks):
                    ranks_ended = now
            time.sleep(0.0005)
        code = self.process.returncode
        outcome.status = code if code >= 0 else 128 - code
        outcome.seconds = ended - self.began
        outcome.ranks_seconds = ranks_ended - self.began
        outcome.output = (self.folder / "out").read_text(errors="replace")
        outcome.error = (self.folder / "err").read_text(errors="replace")

    def look_for_leftovers(self):
        left = self.outcome.left
        deadline = time.monotonic() + 1.0
        while processes_of(self.marker) and time.monotonic() < deadline:
            time.sleep(0.01)
        left += [f"process {pid}" for pid in processes_of(self.marker)]
        for file in sorted(self.work.rglob("*")):
            if file.name == "weights":
                if not is_complete(file):
                    left.append("half of the weights")
            elif file.name != "log":
                left.append(f"file {file.name}")
        left += [f"{SHARED_MEMORY}/{name}" for name in os.listdir(SHARED_MEMORY)
                 if "lockstep" in name and not name.startswith(FOLDER)]


def is_complete(file):
    """A safetensors file with all the bytes that its header promises."""
    content = file.read_bytes()
    if len(content) < 8:
        return False
    header = int.from_bytes(content[:8], "little")
    numbers = WEIGHTS_ENDS.findall(content[8:8 + header].decode(errors="replace"))
    return bool(numbers) and len(content) == 8 + header + max(int(n) for n in numbers)
