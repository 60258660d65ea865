"""Reads columns of Parquet files for `divvy flow` and writes such files for `divvy crawl`, with DuckDB and without the network.

One request comes in on standard input, as a line of JSON:

- {"task": "describe"} is answered with who this is, after a trial.
- {"task": "rows", "path", "from", "to", "columns", "memory_bytes", "threads"} is answered with a line
  {"first_row": N}, then with a line of JSON for each row of the row groups that begin in these bytes of the file. All
  values are text, as they would be in CSV. N counts from 0; it is null if the rows do not follow each other.
- {"task": "write", "path", "columns", "memory_bytes", "threads"} makes `output.parquet` in this folder of a file of JSON
  lines, in their order. Each of the columns is [name, its type in the file, what is written]. The number of rows is the answer.

Code 3 says that the file is at fault, in the last line of standard error; any other that something else is.
"""

import json
import os
import sys
import tempfile

import duckdb

AT_FAULT = 3
# A name without the signs of patterns, which DuckDB would follow.
LINK = "input.parquet"
# What is written, and the longest line that is read for it.
OUTPUT = "output.parquet"
LINE_BYTES_MAX = 64 << 20
NESTED = ("list", "struct", "map", "array", "union", "variant")


def connect(**settings):
    return duckdb.connect(
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "temp_directory": os.getcwd(),
            **settings,
        }
    )


def describe():
    with tempfile.TemporaryDirectory() as folder:
        connection = connect()
        path = os.path.join(folder, "trial.parquet")
        connection.execute(f"COPY (SELECT 7 AS x) TO '{path}' (FORMAT parquet)")
        found = connection.execute(f"SELECT to_json(x)::VARCHAR FROM read_parquet('{path}')").fetchall()
    if found != [("7",)]:
        raise ValueError(f"a trial gave {found}")
    print(json.dumps({"provider": "duckdb", "version": duckdb.__version__}))


def fail(problem):
    # DuckDB quotes our question below the first line.
    print(str(problem).strip().splitlines()[0].replace(LINK, "the file"), file=sys.stderr)
    sys.exit(AT_FAULT)


def name(column):
    return '"' + column.replace('"', '""') + '"'


def select(connection, columns):
    """What is selected, if the file has these columns."""
    relation = connection.execute(f"SELECT * FROM read_parquet('{LINK}') LIMIT 0").description
    has = {column[0]: column[1] for column in relation}
    for column in columns:
        if column not in has:
            fail(f"there is no column `{column}`; the file has {', '.join(list(has)[:20])}")
        if has[column].id in NESTED:
            fail(f"column `{column}` is nested ({has[column]}); make a flat column of it first")
    # A row without columns is still a row.
    return ", ".join(f"{name(column)}::VARCHAR AS {name(column)}" for column in columns) or "1 AS row"


def ranges(connection, begin, end):
    """The rows of the row groups that begin in these bytes."""
    groups = connection.execute(
        f"""SELECT any_value(row_group_num_rows),
            min(least(data_page_offset, nullif(dictionary_page_offset, 0)))
        FROM parquet_metadata('{LINK}') GROUP BY row_group_id ORDER BY row_group_id"""
    ).fetchall()
    row, chosen = 0, []
    for rows, start in groups:
        if begin <= start < end:
            if chosen and chosen[-1][1] == row:
                chosen[-1][1] += rows
            else:
                chosen.append([row, row + rows])
        row += rows
    return chosen


def link(request):
    if os.path.lexists(LINK):
        os.remove(LINK)
    os.symlink(request["path"], LINK)


def connect_for(request):
    memory = f"{max(request['memory_bytes'], 256 << 20)}B"
    return connect(threads=str(request["threads"]), memory_limit=memory)


def write(request):
    link(request)
    connection = connect_for(request)
    columns = request["columns"]
    types = ", ".join(f"{name(column)}: '{kind}'" for column, kind, _ in columns)
    wanted = ", ".join(f"{what} AS {name(column)}" for column, _, what in columns)
    connection.execute(
        f"""COPY (SELECT {wanted} FROM read_json('{LINK}', format = 'newline_delimited', columns = {{{types}}},
        maximum_object_size = {LINE_BYTES_MAX})) TO '{OUTPUT}' (FORMAT parquet, COMPRESSION zstd)"""
    )
    (count,) = connection.execute(f"SELECT count(*) FROM read_parquet('{OUTPUT}')").fetchone()
    print(json.dumps({"rows": count}))


def rows(request):
    link(request)
    connection = connect_for(request)
    wanted = select(connection, request["columns"])
    chosen = ranges(connection, request["from"], request["to"])
    print(json.dumps({"first_row": chosen[0][0] if len(chosen) == 1 else None}), flush=True)
    if not chosen:
        return
    inside = " OR ".join(f"file_row_number BETWEEN {first} AND {end - 1}" for first, end in chosen)
    connection.execute(
        f"""COPY (SELECT {wanted} FROM read_parquet('{LINK}', file_row_number = true) WHERE {inside})
        TO '/dev/stdout' (FORMAT json)"""
    )


def main():
    request = json.loads(sys.stdin.readline())
    if request.get("task") == "describe":
        describe()
        return
    tasks = {"rows": (rows, "Parquet file"), "write": (write, "file of JSON lines")}
    if request.get("task") not in tasks:
        raise ValueError(f"this provider reads and writes Parquet; it cannot {request.get('task')!r}")
    task, kind = tasks[request["task"]]
    try:
        task(request)
    except duckdb.OutOfMemoryException as error:
        fail(f"its rows need more memory than --memory allows: {error}")
    except duckdb.Error as error:
        fail(f"it is no whole {kind}, or one that DuckDB cannot read: {error}")


main()
