"""One Spark session for all tests of this folder: local, small, quiet, and not reachable from the network."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from wiredecode.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent.parent
SETTINGS = {
    **session.SETTINGS,
    **session.LOCAL,
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    # Spark's own classes need no check by each test run.
    "spark.driver.extraJavaOptions": f"{session.LOCAL['spark.driver.extraJavaOptions']} "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
    # Compiling for small tables costs more than it saves.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


PANDAS = "ignore:PySpark does not yet fully support pandas:FutureWarning"
"""Nothing here uses pandas, but Spark looks for it."""
UNCLOSED = ("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
"""Before 4.2 pyspark leaves its sockets to the garbage collector."""


def release() -> tuple[int, ...]:
    """Version of pyspark, or the newest if it is not installed."""
    try:
        return tuple(int(part) for part in version("pyspark").split(".")[:2])
    except PackageNotFoundError:
        return (99,)


collect_ignore = ["test_source.py"] if release() < (4, 1) else []
"""The data source needs a newer pyspark than the rest."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    warnings = (PANDAS, *(UNCLOSED if release() < (4, 2) else ()))
    for item in items:
        if item.nodeid.startswith("tests/spark/"):
            for warning in warnings:
                item.add_marker(pytest.mark.filterwarnings(warning))


def missing() -> str | None:
    """Requirements of Spark that this machine does not have."""
    if importlib.util.find_spec("pyspark") is None:
        return "pyspark is not installed: pip install '.[spark]'"
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") is None and not (home and Path(home, "bin", "java").exists()):
        return "there is no java: Spark needs Java 17 or newer, on the PATH or in JAVA_HOME"
    return None


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session of two cores; in continuous integration a machine without Spark is a failure."""
    if reason := missing():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        # the workers are to import this checkout, wherever pytest was started
        patch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").appName("wiredecode tests")
        folder = tmp_path_factory.mktemp("spark")
        for name, value in {**SETTINGS, "spark.sql.warehouse.dir": str(folder)}.items():
            builder = builder.config(name, value)
        made = builder.getOrCreate()
        yield made
        made.stop()
