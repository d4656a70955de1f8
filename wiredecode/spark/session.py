"""Starts Spark, here or on a cluster, after checks of its requirements (docs/spark.md)."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socketserver
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from wiredecode.extras import install, installed, need
from wiredecode.spark.files import UnreadableFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA, PYSPARK = 17, 4
"""The oldest supported versions; Spark 4 needs that Java."""
GET_JAVA = (
    f"Java {JAVA} or newer (Debian, Ubuntu: apt-get install openjdk-{JAVA}-jre-headless; macOS: brew install "
    f"openjdk@{JAVA}; elsewhere https://adoptium.net), then set JAVA_HOME if java is not on the PATH"
)
GET_PYSPARK = install("spark")
JAVA_SECONDS = 30.0
"""Longest time for ``java -version``."""

PYTHON = "spark.pyspark.python"
LOCAL_MEMORY = "2g"
"""Default memory of the Java process on this machine."""
ARROW = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(8 << 20),
}
"""Rows go to Python in batches of a few MB, for any size of rows. Also for a session that the caller has started."""
SETTINGS = {
    **ARROW,
    "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system",  # which gives back what is freed, see bound_memory
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
}
LOCAL = {
    "spark.driver.memory": LOCAL_MEMORY,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    # Java mostly copies: what its second compiler takes is more than that saves, and so is what compression takes.
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC -XX:TieredStopAtLevel=1",
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    # Rows of a repeated task are compared by it; here no file of a shuffle gets lost, so no task is repeated for one.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
    "spark.python.daemon.module": "wiredecode.spark.daemon",
}
"""On one machine no other host needs to reach the session."""


ROOT = Path(__file__).parent.parent.parent


class CannotStart(Exception):
    """Spark cannot be started; ``str()`` is one line that says what is missing and how to get it."""


def check(master: str = "local[*,4]") -> None:
    """Raise :class:`CannotStart` if pyspark, pandas or Java is missing or too old, or NotInstalled without pyspark."""
    if master.startswith("sc:"):
        raise CannotStart("Spark Connect (sc://...) cannot be used: name the master itself, or run it there")
    _check_packages()
    _check_java()


def _check_packages() -> None:
    need("pyspark", "Spark")
    from importlib.metadata import PackageNotFoundError, version

    with suppress(PackageNotFoundError):  # Spark's own copy on SPARK_HOME is in no list of packages
        pyspark = version("pyspark")
        if int(pyspark.split(".")[0]) < PYSPARK:
            raise CannotStart(f"pyspark {pyspark} is too old, {PYSPARK}.0 or newer is needed: {GET_PYSPARK}")
    if not installed("pandas"):
        raise CannotStart(f"Spark needs pandas, which is not installed: {GET_PYSPARK}")


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        raise CannotStart(f"there is no java on the PATH, and JAVA_HOME is not set; Spark needs {GET_JAVA}")
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=JAVA_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        where = f"JAVA_HOME is {home}, and no java can be started there" if home else f"{java} cannot be started"
        raise CannotStart(f"{where}; Spark needs {GET_JAVA}") from None
    version = java_version(done.stderr + done.stdout)
    if version is None:
        raise CannotStart(f"{java} does not print its version; Spark needs {GET_JAVA}")
    if version < JAVA:
        raise CannotStart(f"{java} is Java {version}, which is too old; Spark needs {GET_JAVA}")


def java_version(text: str) -> int | None:
    """The version in what ``java -version`` says: 17 in ``17.0.15``, 8 in ``1.8.0_302``."""
    match = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if match is None:
        return None
    first, second = int(match[1]), match[2]
    return int(second) if first == 1 and second else first


@contextmanager
def session(
    master: str = "local[*,4]", *, settings: Mapping[str, str] | None = None, log: IO[bytes] | None = None
) -> Iterator[SparkSession]:
    """A session that is stopped at the end.

    ``settings`` override :data:`SETTINGS`. ``log``: output of Java and the workers, in place of standard error. Raises
    :class:`CannotStart`.
    """
    check(master)
    local = master == "local" or master.startswith("local[")
    chosen = {**SETTINGS, **(LOCAL if local else {}), **(settings or {})}
    if PYTHON in chosen:  # only spark-submit would pass it on
        os.environ["PYSPARK_PYTHON"] = chosen[PYTHON]
    if local:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        # workers on this machine import the same wiredecode, also out of a checkout
        paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([str(ROOT), *filter(None, paths)]))
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    handler = signal.getsignal(signal.SIGINT)
    with _standard_error(log):
        spark = _start_session(master, chosen)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)  # that of pyspark calls Java in the midst of another call
    mute_lost_java(spark.sparkContext._accumulatorServer)
    try:
        yield spark
    finally:
        in_thread(spark.stop)


def mute_lost_java(server: socketserver.BaseServer) -> None:
    """Ctrl-C may end Java while it writes to pyspark's server, which would print a traceback."""
    report = server.handle_error

    def handle_error(request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), EOFError | ConnectionError):
            report(request, client_address)

    server.handle_error = handle_error  # type: ignore[method-assign]


def in_thread(work: Callable[[], None]) -> None:
    """Run in a separate thread: an interrupted call of Java would block the next one. Errors are ignored."""

    def quietly() -> None:
        with suppress(Exception):
            work()

    thread = threading.Thread(target=quietly, daemon=True)
    thread.start()
    thread.join()


def _start_session(master: str, settings: Mapping[str, str]) -> SparkSession:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("wiredecode")
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except KeyboardInterrupt:
        raise
    except PySparkException as error:
        raise CannotStart(f"Spark does not start: {one_line(error)}; -v shows what it says") from None
    except Exception as error:  # of py4j: the master cannot be reached, a setting is wrong
        raise CannotStart(f"Spark does not start with master {master}: {one_line(error)}") from None


@contextmanager
def _standard_error(log: IO[bytes] | None) -> Iterator[None]:
    """Processes that are started meanwhile have ``log`` as their standard error."""
    if log is None:
        yield
        return
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        os.dup2(log.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def tune(spark: SparkSession) -> None:
    """Set :data:`ARROW` in a session, except settings that it has already."""
    set_already = spark.conf.getAll
    for name, value in ARROW.items():
        if name not in set_already:
            spark.conf.set(name, value)


RAISED = re.compile(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception)|UnreadableFile): (.+)$", re.MULTILINE)
JAVA_FRAMES = "\n\tat "


def one_line(error: BaseException) -> str:
    """Find the reason in the long output of a failed job: what Python raised in a task, or else the first line."""
    from wiredecode.capture.errors import single_line

    java = getattr(error, "java_exception", None)
    text = str(error if java is None else java)
    raised: list[tuple[str, str]] = RAISED.findall(text)
    unreadable = [message for name, message in raised if name == UnreadableFile.__name__]
    python = RAISED.findall(text.partition(JAVA_FRAMES)[0]) if "Traceback" in text else []
    lines = [line for line in text.splitlines() if line.strip()] or [type(error).__name__]
    reason = unreadable[0] if unreadable else ": ".join(python[-1]) if python else lines[0]
    return single_line(reason.strip())
