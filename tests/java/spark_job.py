"""A Spark program in local mode, run by the Python that Spark is installed in: `spark_job.py WHAT URL ROWS SETTINGS`.

`write-parquet`, `write-partitions`, `write-text` and `write-rdd` write rows that `read-…` of the same name reads again, and
prints their count and the sum of their numbers. SETTINGS is a JSON object of Spark's settings.
"""

import json
import sys

from pyspark.sql import SparkSession


def main(what, url, rows, settings):
    builder = SparkSession.builder.master("local[2]").appName("tidegate")
    for name, value in json.loads(settings).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    # Files of several seconds, so that kills meet every step.
    data = spark.range(0, int(rows), 1, 8).selectExpr("id", "id % 4 AS part", "sha2(string(id), 256) AS text")
    written = None
    match what:
        case "write-parquet":
            data.write.mode("overwrite").parquet(url)
        case "write-partitions":
            data.write.mode("overwrite").partitionBy("part").parquet(url)
        case "write-text":
            data.selectExpr("concat(id, ',', text)").write.mode("overwrite").text(url)
        case "write-rdd":
            # `saveAsTextFile` has an older interface, which knows no committer but its own.
            data.rdd.map(lambda row: (None, f"{row.id},{row.text}")).saveAsNewAPIHadoopFile(
                url,
                "org.apache.hadoop.mapreduce.lib.output.TextOutputFormat",
                keyClass="org.apache.hadoop.io.NullWritable",
                valueClass="org.apache.hadoop.io.Text",
            )
        case "read-parquet" | "read-partitions":
            written = spark.read.parquet(url)
        case "read-text" | "read-rdd":
            written = spark.read.text(url).selectExpr("cast(split(value, ',')[0] AS long) AS id")
    if written is not None:
        print(json.dumps(written.selectExpr("count(*) AS count", "sum(id) AS sum").first().asDict()))
    spark.stop()


main(*sys.argv[1:])
