"""Compares `divvy flow graph` with NetworkX on random graphs; a part of scripts/duckdb."""

import math
import os
from concurrent.futures import ThreadPoolExecutor

import networkx
from networkx.algorithms.link_analysis.pagerank_alg import _pagerank_python

ISLANDS = 6
VERTICES = 60
EDGES = 150
# So little memory and so large numbers that vertices come and go in ranges.
LITTLE, SPREAD = "1MB", 300
# Both stop after the same iteration; in ranges each takes its time.
RANKS, RANKS_IN_RANGES = (0.85, 1e-9), (0.5, 1e-4)


def edges_of(chance, spread):
    """Edges of several islands, with loops, edges that are given twice, and vertices without any that leaves them."""
    edges = []
    for island in range(ISLANDS):
        vertices = [(island * VERTICES + at) * spread for at in range(VERTICES)]
        ends = [vertex for vertex in vertices if chance.random() < 0.2]
        begins = [vertex for vertex in vertices if vertex not in ends]
        for _ in range(chance.randint(EDGES // 3, EDGES)):
            begin = chance.choice(begins)
            edge = (begin, begin if chance.random() < 0.05 else chance.choice(vertices), chance.randint(1, 20))
            edges += [edge] * chance.choice([1, 1, 1, 2])
    chance.shuffle(edges)
    return edges


def graph_of(divvy, chance, seed, fail, is_named):
    """How many vertices agree, in all five jobs on one graph."""
    spread = 1 if is_named else SPREAD
    name = (lambda vertex: f"v{vertex} é") if is_named else str
    edges = [(name(begin), name(end), length) for begin, end, length in edges_of(chance, spread)]
    path = os.path.join(divvy.folder, f"{seed}.tsv")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{begin}\t{end}\t{length}\n" for begin, end, length in edges)
    graph = networkx.MultiDiGraph()
    graph.add_weighted_edges_from(edges, weight="length")
    source = edges[0][0]

    damping, tolerance = RANKS if is_named else RANKS_IN_RANGES
    jobs = [
        ["pagerank", "--damping", str(damping), "--tolerance", str(tolerance), "--iterations", "1000"],
        ["degrees"],
        ["sssp", "--source", source],
        ["sssp", "--source", source, "--weighted"],
        ["components"],
    ]

    def found(words):
        lines = divvy.flow("graph", *words, "--edges", path, "--split", "2kB", "--memory", "64MB" if is_named else LITTLE)
        return {vertex: values for vertex, *values in (line.split("\t") for line in lines)}

    def compare(what, found, expected, same):
        if found.keys() != expected.keys():
            fail(f"{what}: the vertices", seed, sorted(found)[:9], sorted(expected)[:9])
        for vertex, values in found.items():
            if not same(values, expected[vertex]):
                fail(f"{what} of {vertex}", seed, values, expected[vertex])

    def close(values, expected):
        return math.isclose(float(values[0]), expected, rel_tol=1e-9)

    with ThreadPoolExecutor() as crew:
        ranks, degrees, steps, lengths, components = crew.map(found, jobs)
    expected = _pagerank_python(graph, damping, weight=None, max_iter=1000, tol=tolerance / len(graph))
    compare("pagerank", ranks, expected, close)
    expected = {vertex: [str(graph.out_degree(vertex)), str(graph.in_degree(vertex))] for vertex in graph}
    compare("degrees", degrees, expected, list.__eq__)
    compare("sssp", steps, networkx.single_source_shortest_path_length(graph, source), close)
    expected = networkx.single_source_dijkstra_path_length(graph, source, weight="length")
    compare("sssp --weighted", lengths, expected, close)
    # Whatever a component is called, it is that of the same vertices.
    groups = {}
    for vertex, (component,) in components.items():
        groups.setdefault(component, set()).add(vertex)
    expected = sorted(map(sorted, networkx.weakly_connected_components(graph)))
    if sorted(map(sorted, groups.values())) != expected or any(name not in of for name, of in groups.items()):
        fail("components", seed, sorted(map(len, groups.values())), sorted(map(len, expected)))
    return len(graph)
