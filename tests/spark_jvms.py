"""Options of Spark's JVMs in tests: without them, JVMs spend their time on loading and compiling code that runs a few times.

``python -m tests.spark_jvms`` makes an archive of Spark's classes below ``.cache``. With the archive, a JVM starts in half the
time.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

_CACHE: Final = Path(__file__).resolve().parents[1] / ".cache" / "spark"
_SHORT_LIVED: Final = (
    *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
    *("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote"),
)
LAUNCHER: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of the JVM that only makes the command of another one."""
SETTINGS: Final = {
    "spark.ui.enabled": "false",  # their web pages would need the same port
    "spark.sql.codegen.wholeStage": "false",  # compiling takes longer than a few hundred rows
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Settings of sessions in tests; installed packages have Spark's own."""
_QUIET: Final = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off")
"""A JVM with other jars, or one that starts before the archive is there, says nothing and takes the classes from the jars."""
_PROGRAM: Final = """
from pyspark.sql import SparkSession

configuration = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.log.level": "OFF"}
spark = SparkSession.builder.master("local[2]").config(map=configuration).getOrCreate()
spark.createDataFrame([(1, "a")], "a int, b string").write.parquet("table")
spark.read.parquet("table").groupBy("b").agg({"a": "max"}).toPandas()
spark.range(10).mapInArrow(lambda batches: batches, "id long").count()
"""


def archive() -> Path | None:
    """Return where the archive for this Spark and Java belongs; None where an option can't name it."""
    java = shutil.which("java", path=f"{os.environ.get('JAVA_HOME', '')}/bin") or shutil.which("java")
    if java is None or any(map(str.isspace, str(_CACHE))):
        return None
    import pyspark

    classes = Path(java).resolve().parents[1] / "lib" / "modules"
    made_for = f"{pyspark.__file__} {pyspark.__version__} {classes} {classes.stat().st_mtime_ns if classes.exists() else ''}"
    return _CACHE / f"classes-{hashlib.sha256(made_for.encode()).hexdigest()[:12]}.jsa"


def options() -> str:
    """Return the options of JVMs that do not live long."""
    path = archive()
    return " ".join([*_SHORT_LIVED, *([] if path is None else [f"-XX:SharedArchiveFile={path}", *_QUIET])])


def options_of_sessions() -> str:
    """Return the options of a JVM that has a session."""
    return " ".join([options(), *(f"-D{name}={value}" for name, value in SETTINGS.items())])


def make_archive(target: Path) -> None:
    """Run a session that uses what most tests use, and keep the classes that it loaded."""
    work = target.with_name(f"{target.name}-{os.getpid()}")
    work.mkdir(parents=True)
    try:
        made = work / target.name
        settings = " ".join([*_SHORT_LIVED, f"-XX:ArchiveClassesAtExit={made}", *_QUIET])
        clean = {name: value for name, value in os.environ.items() if not name.startswith("SPARK")}
        environment = clean | {"SPARK_SUBMIT_OPTS": settings, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        subprocess.run([sys.executable, "-c", _PROGRAM], cwd=work, env=environment, capture_output=True, check=True, timeout=300)
        made.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    place = archive()
    if place is not None and not place.exists():
        make_archive(place)
