"""The benchmark of loading tensors, with few of them: that it runs and what it prints. No time is judged."""

from benchmarks.sealed_tensors import load_ratio


def test_the_benchmark_of_loading_tensors_prints_a_line_without_a_bar() -> None:
    line = load_ratio(matrices=1, rounds=1).line()
    assert line.startswith("sealed-safetensors-load ")
    assert line.endswith(" bar none ok")
