"""Compares `divvy flow` with DuckDB and NetworkX on random data: python3 duckdb_compare.py DIVVY [SEED]. See
scripts/duckdb."""

import csv
import glob
import gzip
import json
import math
import os
import random
import subprocess
import sys
import tempfile

import duckdb
import networkx

from graph_compare import graph_of

ROUNDS = 2
ROWS = 3000
COLUMNS = "{'g': 'VARCHAR', 'u': 'VARCHAR', 'v': 'VARCHAR', 'x': 'DOUBLE'}"
AGG = "count, count(x), sum(x), avg(x), min(x), max(x), distinct(u), common(u,v), p50(x), p99(x)"
SQL = """SELECT coalesce(g, ''), count(*), count(x), sum(x), avg(x), min(x), max(x), count(DISTINCT u),
    coalesce(len(list_intersect(list(DISTINCT u), list(DISTINCT v) FILTER (v IS NOT NULL))), 0),
    quantile_cont(x, 0.5), quantile_cont(x, 0.99) FROM {rows} GROUP BY ALL"""
ROUGH = "distinct(u), common(u,v), p50(x), p99(x)"


class Divvy:
    """A server and two workers in a folder of their own."""

    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder
        command = [binary, "--config", "/dev/null", "up", "--json", "--workers", "2", "--no-video", "--no-crawl"]
        command += ["--listen", "127.0.0.1:0", "--data", os.path.join(folder, "data"), "--flow-read", folder]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=folder)
        self.url = json.loads(self.process.stdout.readline())["url"]

    def flow(self, *words):
        """The lines of the result of a job."""
        out = tempfile.mkdtemp(dir=self.folder)
        command = [self.binary, "--server", self.url, "--quiet", "flow", *words, "--out", out]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, check=False)
        if done.returncode != 0:
            sys.exit(f"duckdb: {' '.join(words)}: {done.stdout}{done.stderr}")
        lines = []
        for path in sorted(glob.glob(os.path.join(out, "part-*"))):
            with open(path, encoding="utf-8", newline="") as file:
                lines += file.read().splitlines()
        return lines

    def end(self):
        self.process.terminate()
        self.process.wait()


def fail(what, seed, found, expected):
    sys.exit(f"duckdb: {what} differs (seed {seed}):\n  divvy     {found}\n  the other {expected}")


def same(left, right):
    if left in ("", None) or right is None:
        return (left or None) is None and right is None
    if isinstance(right, (int, float)):
        return math.isclose(float(left), float(right), rel_tol=1e-9, abs_tol=1e-9)
    return left == right


def words_of(divvy, chance, seed):
    path = os.path.join(divvy.folder, f"{seed}.txt")
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(ROWS):
            words = [f"w{int(1000 / chance.uniform(1, 1000))}é"[: chance.choice([2, 9])] for _ in range(chance.randint(0, 9))]
            file.write(" ".join(words) + "\n")
    found = dict(line.rsplit("\t", 1) for line in divvy.flow("mapreduce", "wordcount", "--input", path, "--split", "10kB"))
    lines = f"read_csv('{path}', columns={{'line': 'VARCHAR'}}, delim='\\0', header=false, quote='', escape='')"
    query = f"""SELECT word, count(*) FROM (SELECT unnest(string_split(line, ' ')) AS word FROM {lines})
        WHERE word <> '' GROUP BY word"""
    expected = {word: str(count) for word, count in duckdb.sql(query).fetchall()}
    if found != expected:
        fail("wordcount", seed, sorted(found.items())[:5], sorted(expected.items())[:5])


def rows_of(folder, chance, seed, shape):
    rows = []
    for _ in range(ROWS):
        number = chance.choice([None, chance.randint(-1000, 1000), round(chance.uniform(-50, 50), 3)])
        group = chance.choice(["a", "b,c", 'q"q', "", f"k{chance.randint(0, 40)}"])
        other = chance.choice([None, f"u{chance.randint(100, 400)}"])
        rows.append({"g": group, "u": f"u{chance.randint(0, 300)}", "v": other, "x": number})
    path = os.path.join(folder, f"{seed}.{shape}")
    if shape == "parquet":
        table = f"read_json('{path}.jsonl', format='newline_delimited', columns={COLUMNS})"
        with open(f"{path}.jsonl", "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        duckdb.sql(f"COPY (FROM {table}) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 2048)")
        return path
    opener = gzip.open if shape.endswith(".gz") else open
    with opener(path, "wt", encoding="utf-8", newline="") as file:
        if shape.startswith("csv"):
            writer = csv.DictWriter(file, ["g", "u", "v", "x"])
            writer.writeheader()
            writer.writerows(rows)
        else:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    return path


def groups_of(divvy, chance, seed, shape):
    path = rows_of(divvy.folder, chance, seed, shape)
    if shape.startswith("csv"):
        rows = f"read_csv('{path}', header=true, columns={COLUMNS})"
    elif shape == "parquet":
        rows = f"(SELECT nullif(g, '') AS g, u, v, x FROM read_parquet('{path}'))"
    else:
        rows = f"(SELECT nullif(g, '') AS g, u, v, x FROM read_json('{path}', format='newline_delimited', columns={COLUMNS}))"
    expected = {row[0]: row[1:] for row in duckdb.sql(SQL.format(rows=rows)).fetchall()}
    job = ["aggregate", "--input", path, "--group-by", "g", "--split", "8kB", "--memory", "2MB"]
    lines = divvy.flow(*job, "--agg", AGG)
    found = {row[0]: row[1:] for row in csv.reader(lines[1:])}
    if found.keys() != expected.keys():
        fail(f"groups of {shape}", seed, sorted(found), sorted(expected))
    for group, cells in found.items():
        if not all(same(cell, other) for cell, other in zip(cells, expected[group], strict=True)):
            fail(f"group {group!r} of {shape}", seed, cells, expected[group])
    rough = divvy.flow(*job, "--agg", ROUGH, "--approx")
    for group, *cells in csv.reader(rough[1:]):
        for at, column in enumerate((6, 7, 8, 9)):
            exact, (_, low, high) = expected[group][column], cells[3 * at : 3 * at + 3]
            if exact is not None and not float(low) <= exact + 1e-9 or exact is not None and exact - 1e-9 > float(high):
                fail(f"bounds of group {group!r}", seed, (low, high), exact)
    return len(found)


def main():
    binary = sys.argv[1]
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 32)
    groups = vertices = 0
    with tempfile.TemporaryDirectory() as folder:
        divvy = Divvy(binary, folder)
        try:
            for number in range(seed, seed + ROUNDS):
                chance = random.Random(number)
                words_of(divvy, chance, number)
                for shape in ("csv", "jsonl", "csv.gz", "parquet"):
                    groups += groups_of(divvy, chance, number, shape)
                vertices += graph_of(divvy, chance, number, fail, is_named=number % 2 == 0)
        finally:
            divvy.end()
    print(f"{ROUNDS} word counts and {groups} groups are those of DuckDB {duckdb.__version__},")
    print(f"ranks, degrees, distances and components of {vertices} vertices those of NetworkX {networkx.__version__} (seed {seed})")


if __name__ == "__main__":
    main()
