"""The same work by other engines: python3 peers.py ENGINE WORK FILE. Two threads, results kept, nothing printed."""

import os
import sys

engine, work, path = sys.argv[1:4]

WORDS = "SELECT word, count(*) AS times FROM ({words}) WHERE word <> '' GROUP BY word"
GROUPS = {
    "exact": "SELECT k, count(*), sum(x), count(DISTINCT u), {p50}, {p99} FROM {rows} GROUP BY k",
    "approx": "SELECT k, count(*), sum(x), {distinct}, {q50}, {q99} FROM {rows} GROUP BY k",
}


def duckdb():
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET threads = 2")
        if work == "words":
            lines = f"read_csv('{path}', columns={{'line': 'VARCHAR'}}, delim='\\0', header=false, quote='', escape='')"
            query = WORDS.format(words=f"SELECT unnest(string_split(line, ' ')) AS word FROM {lines}")
        else:
            query = GROUPS[work].format(
                rows=f"read_csv('{path}')",
                p50="quantile_cont(x, 0.5)",
                p99="quantile_cont(x, 0.99)",
                distinct="approx_count_distinct(u)",
                q50="approx_quantile(x, 0.5)",
                q99="approx_quantile(x, 0.99)",
            )
        connection.execute(f"CREATE TABLE result AS {query}")


def spark():
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.shuffle.partitions", "4").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    if work == "words":
        session.read.text(path).createOrReplaceTempView("lines")
        query = WORDS.format(words="SELECT explode(split(value, ' ')) AS word FROM lines")
    else:
        session.read.csv(path, header=True, inferSchema=True).createOrReplaceTempView("data")
        query = GROUPS[work].format(
            rows="data",
            p50="percentile(x, 0.5)",
            p99="percentile(x, 0.99)",
            distinct="approx_count_distinct(u)",
            q50="percentile_approx(x, 0.5)",
            q99="percentile_approx(x, 0.99)",
        )
    session.sql(query).write.mode("overwrite").format("noop").save()
    session.stop()


{"duckdb": duckdb, "pyspark": spark}[engine]()
sys.stdout.flush()
os._exit(0)
