"""The benchmarks of the embedding model, with few passages: that they run and what they print. No time is judged."""

from benchmarks.rag_embedding import passages, query


def test_the_benchmarks_of_embedding_print_lines_without_a_bar() -> None:
    for figure, id_ in ((query(rounds=1), "rag-embed-query-ms"), (passages(count=3, rounds=1), "rag-embed-passages")):
        assert figure.line().startswith(f"{id_} ")
        assert figure.line().endswith(" bar none ok")
