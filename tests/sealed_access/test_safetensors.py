"""Tensors of sealed files: the same as the safetensors library gives, and nothing that it refuses."""

import json
import struct
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import ConfigurationError, SealedFileError
from attest.sealed import SealedReader
from attest.sealed.layout import segment_count
from attest.sealed.safetensors import TensorFile, load_tensors, open_tensors
from attest.sealed.tensor_header import DTYPE_BITS, MAX_HEADER_BYTES, header_length
from attest.sealed.tensor_set import INDEX_NAME, load_model, open_model
from tests.sealed.segments import AAD, KEY, MemorySource, sealed
from tests.sealed_access.making import Arrays, Plain, deserialize, reader_of, safetensors_bytes
from tests.sealed_access.strangers import compare

NUMPY_KINDS = ["?", "u1", "i1", "<i2", "<u2", "<f2", "<i4", "<u4", "<f4", "<i8", "<u8", "<f8", "<c8"]


def tensor(dtype: str, shape: list[int], begin: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def sample() -> Arrays:
    random = np.random.default_rng(7)
    made: Arrays = {
        "a": random.standard_normal((33, 17)).astype(np.float32),
        "b.weight": random.integers(0, 255, (5, 4, 3), dtype=np.uint8),
        "empty": np.zeros((0, 4), np.float16),
        "flags": np.array([True, False, True]),
        "scalar": np.array(1.5, np.float64),
        "ümlaut": np.arange(9, dtype=np.int64),
    }
    made.update({f"kind {kind}": np.arange(6).reshape(2, 3).astype(kind) for kind in NUMPY_KINDS})
    return made


def same(got: dict[str, Any], expected: Arrays) -> None:
    assert got.keys() == expected.keys()
    for name, array in expected.items():
        assert got[name].dtype == array.dtype
        assert got[name].shape == array.shape
        assert np.array_equal(got[name], array)


def test_what_the_library_saves_loads_the_same_from_a_sealed_file() -> None:
    arrays = sample()
    content = safetensors.numpy.save(arrays, metadata={"format": "np"})
    same(load_tensors(reader_of(content)), arrays)
    with open_tensors(reader_of(content)) as tensors:
        assert tensors.keys() == sorted(arrays)
        assert tensors.metadata() == {"format": "np"}
        same({name: tensors.get_tensor(name) for name in tensors.keys()}, arrays)  # noqa: SIM118  no mapping


def test_a_large_tensor_is_decrypted_over_many_segments_into_its_own_memory() -> None:
    arrays: Arrays = {"w": np.arange(3_000_000, dtype=np.float32), "x": np.arange(7, dtype=np.uint8)}
    loaded = load_tensors(reader_of(safetensors.numpy.save(arrays)))
    same(loaded, arrays)
    assert loaded["w"].flags.writeable
    assert loaded["w"].base is not None
    assert loaded["w"].base.nbytes == arrays["w"].nbytes


def test_only_the_tensors_that_are_wanted_are_read() -> None:
    arrays: Arrays = {f"t{at}": np.full(100, at, np.uint8) for at in range(10)}
    content = safetensors.numpy.save(arrays)
    plain = Plain(content)
    same(load_tensors(plain), arrays)
    assert plain.closed
    plain = Plain(content)
    same(load_tensors(plain, names=["t1", "t5", "t6"]), {name: arrays[name] for name in ("t1", "t5", "t6")})
    assert sum(size for _, size in plain.asked[2:]) == 300


def test_each_segment_is_read_once_however_many_tensors_share_it() -> None:
    arrays: Arrays = {f"t{at}": np.full(30_000, at, np.uint8) for at in range(100)}
    source = MemorySource(sealed(safetensors.numpy.save(arrays)))
    heard: list[int] = []
    reader = SealedReader(source, key=KEY, associated_data=AAD, threads=3)
    source.reads.clear()
    same(load_tensors(reader, progress=heard.append), arrays)
    assert len(source.reads) == len(set(source.reads)) == segment_count(source.size)
    assert heard == sorted(heard)
    assert heard[-1] == 3_000_000


def test_progress_is_told_up_to_the_last_byte() -> None:
    arrays: Arrays = {f"t{at}": np.full(100, at, np.uint8) for at in range(5)}
    heard: list[int] = []
    load_tensors(Plain(safetensors.numpy.save(arrays)), progress=heard.append)
    assert heard == [100, 200, 300, 400, 500]


@pytest.mark.parametrize(
    "index",
    [
        0,
        -1,
        5,
        slice(None),
        slice(2, 5),
        slice(-3, None),
        slice(5, 2),
        slice(None, None, 2),
        slice(6, 1, -2),
        slice(100, 200),
        (slice(1, 3), slice(None), 2),
        (3, ..., slice(0, 2)),
        ...,
        (),
        None,
        (slice(2, 4), None),
        [1, 3],
        (slice(None), 1),
    ],
)
def test_a_slice_is_the_slice_of_the_whole(index: Any) -> None:  # noqa: ANN401  whatever indexes an array
    array = np.arange(7 * 4 * 3, dtype=np.int32).reshape(7, 4, 3)
    with open_tensors(Plain(safetensors.numpy.save({"x": array}))) as tensors:
        assert np.array_equal(tensors.get_slice("x")[index], array[index])


def test_a_slice_reads_only_its_rows_and_knows_its_shape() -> None:
    array = np.arange(7000, dtype=np.int32).reshape(70, 100)
    plain = Plain(safetensors.numpy.save({"x": array}))
    with open_tensors(plain) as tensors:
        part = tensors.get_slice("x")
        assert part.get_shape() == [70, 100]
        assert part.get_dtype() == "I32"
        before = len(plain.asked)
        assert np.array_equal(part[10:12], array[10:12])
        assert [size for _, size in plain.asked[before:]] == [800]
        with pytest.raises(IndexError):
            part[70]
        with pytest.raises(IndexError):
            part[-71]
    for shape in ((0, 3), (3, 0), ()):
        array = np.zeros(shape, np.float32)
        with open_tensors(Plain(safetensors.numpy.save({"x": array}))) as tensors:
            assert np.array_equal(tensors.get_slice("x")[...], array)
            if shape:
                assert tensors.get_slice("x")[:2].shape == array[:2].shape


@given(
    shape=st.lists(st.integers(0, 5), min_size=1, max_size=3),
    bounds=st.tuples(*[st.none() | st.integers(-7, 7)] * 2, st.sampled_from([None, 1, 2, 3, -1, -2])),
)
def test_any_slice_is_the_slice(shape: list[int], bounds: tuple[int | None, int | None, int | None]) -> None:
    array = np.arange(int(np.prod(shape)), dtype=np.int16).reshape(shape)
    with open_tensors(Plain(safetensors.numpy.save({"x": array}))) as tensors:
        assert np.array_equal(tensors.get_slice("x")[slice(*bounds)], array[slice(*bounds)])


@pytest.mark.parametrize("dtype", sorted(DTYPE_BITS))
def test_every_kind_of_the_format_is_read(dtype: str) -> None:
    data = bytes([0, 1, 0, 1, 1, 0, 1, 0] * 8)[: 4 * DTYPE_BITS[dtype] // 8]
    content = safetensors_bytes({"t": tensor(dtype, [2, 2], 0, len(data))}, data)
    [(name, expected)] = deserialize(content)
    assert (name, expected["dtype"]) == ("t", dtype)
    array = load_tensors(Plain(content))["t"]
    assert array.tobytes() == data == bytes(expected["data"])
    packed = DTYPE_BITS[dtype] % 8
    assert array.shape == ((len(data),) if packed else (2, 2))
    with open_tensors(Plain(content)) as tensors:
        if packed:
            with pytest.raises(ConfigurationError) as error:
                tensors.get_slice("t")
            assert error.value.code == "tensor-packed"
        else:
            assert tensors.get_slice("t")[1].tobytes() == data[len(data) // 2 :]


def test_a_bool_is_0_or_1() -> None:
    with pytest.raises(SealedFileError) as error:
        load_tensors(Plain(safetensors_bytes({"t": tensor("BOOL", [2], 0, 2)}, b"\1\2")))
    assert error.value.code == "safetensors-malformed"


def test_a_tensor_that_is_not_there_is_named_with_the_one_that_was_meant() -> None:
    with open_tensors(Plain(safetensors.numpy.save({"wte.weight": np.zeros(1)}))) as tensors:
        for ask in (tensors.get_tensor, tensors.get_slice, tensors.info, lambda name: tensors.load([name])):
            with pytest.raises(ConfigurationError) as error:
                ask("wte.weigth")
            assert error.value.code == "tensor-unknown"
            assert error.value.hint == "did you mean 'wte.weight'?"


def test_frameworks_are_two() -> None:
    with pytest.raises(ValueError, match="framework"):
        TensorFile(Plain(safetensors_bytes({})), framework="jax")  # type: ignore[arg-type]  # on purpose


def test_without_pytorch_its_tensors_are_refused() -> None:
    try:
        import torch  # noqa: F401
    except ImportError:
        plain = Plain(safetensors_bytes({}))
        with pytest.raises(ConfigurationError) as error:
            open_tensors(plain, framework="torch")
        assert error.value.code == "tensor-framework-unavailable"
        assert plain.closed
    else:
        pytest.skip("PyTorch is installed")


def test_pytorch_gives_the_same() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed; it is too large for every run")
    arrays = sample()
    content = safetensors.numpy.save(arrays)
    loaded = load_tensors(reader_of(content), framework="torch")
    same({name: one.numpy() for name, one in loaded.items()}, arrays)
    array = np.arange(84, dtype=np.int32).reshape(7, 4, 3)
    with open_tensors(Plain(safetensors.numpy.save({"x": array})), framework="torch") as tensors:
        for index in (0, slice(2, 5), (slice(1, 3), slice(None), 2), ..., slice(None, None, 2)):
            assert np.array_equal(tensors.get_slice("x")[index].numpy(), array[index])
    for dtype in sorted(DTYPE_BITS):
        data = bytes([0, 1, 0, 1, 1, 0, 1, 0] * 8)[: 4 * DTYPE_BITS[dtype] // 8]
        one = load_tensors(
            Plain(safetensors_bytes({"t": tensor(dtype, [2, 2], 0, len(data))}, data)), framework="torch"
        )["t"]
        assert bytes(one.reshape(-1).view(torch.uint8).tolist()) == data
    from safetensors import torch as library

    ours = load_tensors(Plain(content), framework="torch")
    theirs = library.load(content)
    assert all(torch.equal(ours[name], theirs[name]) and ours[name].dtype == theirs[name].dtype for name in theirs)


# -- headers of strangers

U8 = tensor("U8", [2], 0, 2)
HOSTILE: list[tuple[str, bytes]] = [
    ("nothing", b""),
    ("7 bytes", b"\0" * 7),
    ("no header", struct.pack("<Q", 0)),
    ("a header longer than the file", safetensors_bytes({}, length=100)),
    ("a header longer than may be", safetensors_bytes({}, length=MAX_HEADER_BYTES + 1)),
    ("the longest length there is", safetensors_bytes({}, length=2**64 - 1)),
    ("a list", safetensors_bytes(b"[]")),
    ("braces that are none", safetensors_bytes(b"{}{}")),
    ("no JSON", safetensors_bytes(b"{")),
    ("not UTF-8", safetensors_bytes(b'{"\xff":1}')),
    ("half a surrogate pair", safetensors_bytes(b'{"\\ud800":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}', b"ab")),
    ("NaN", safetensors_bytes(b'{"__metadata__":NaN}')),
    ("a byte-order mark", safetensors_bytes(b"\xef\xbb\xbf{}")),
    ("NUL behind it", safetensors_bytes(b"{}\0")),
    ("data of no tensor", safetensors_bytes({}, b"a")),
    ("data behind the last tensor", safetensors_bytes({"a": U8}, b"abc")),
    ("data too short", safetensors_bytes({"a": U8}, b"a")),
    ("a hole", safetensors_bytes({"a": U8, "b": tensor("U8", [1], 3, 4)}, b"abcd")),
    ("a hole before the first", safetensors_bytes({"a": tensor("U8", [1], 1, 2)}, b"ab")),
    ("an overlap", safetensors_bytes({"a": U8, "b": tensor("U8", [2], 1, 3)}, b"abc")),
    ("two in one place", safetensors_bytes({"a": U8, "b": U8}, b"ab")),
    ("an empty one within another", safetensors_bytes({"a": U8, "b": tensor("U8", [0], 1, 1)}, b"ab")),
    ("an empty one behind the end", safetensors_bytes({"a": U8, "b": tensor("U8", [0], 7, 7)}, b"ab")),
    ("a size that does not fit", safetensors_bytes({"a": tensor("F32", [1], 0, 2)}, b"ab")),
    ("offsets backwards", safetensors_bytes({"a": tensor("U8", [2], 2, 0)}, b"ab")),
    ("three offsets", safetensors_bytes({"a": {**U8, "data_offsets": [0, 2, 3]}}, b"ab")),
    ("one offset", safetensors_bytes({"a": {**U8, "data_offsets": [0]}}, b"ab")),
    ("a negative offset", safetensors_bytes({"a": {**U8, "data_offsets": [-2, 0]}}, b"ab")),
    ("an unknown kind", safetensors_bytes({"a": {**U8, "dtype": "X8"}}, b"ab")),
    ("a kind in small letters", safetensors_bytes({"a": {**U8, "dtype": "u8"}}, b"ab")),
    ("a kind that is no text", safetensors_bytes({"a": {**U8, "dtype": 8}}, b"ab")),
    ("a negative length", safetensors_bytes({"a": {**U8, "shape": [-2]}}, b"ab")),
    ("a length with a fraction", safetensors_bytes({"a": {**U8, "shape": [2.0]}}, b"ab")),
    (
        "a length that is a truth",
        safetensors_bytes({"a": {"dtype": "U8", "shape": [True], "data_offsets": [0, 1]}}, b"a"),
    ),
    ("a shape that is a number", safetensors_bytes({"a": {**U8, "shape": 2}}, b"ab")),
    ("more than 64 bits", safetensors_bytes({"a": {**U8, "shape": [2**63, 2**63]}}, b"ab")),
    ("more than 64 bits, then none", safetensors_bytes({"a": tensor("U8", [2**63, 2**63, 0], 0, 0)})),
    ("an axis of more than 64 bits", safetensors_bytes({"a": tensor("U8", [2**64, 0], 0, 0)})),
    ("half a byte", safetensors_bytes({"a": tensor("F4", [3], 0, 2)}, b"ab")),
    ("no offsets", safetensors_bytes({"a": {"dtype": "U8", "shape": [2]}}, b"ab")),
    ("a member twice", safetensors_bytes(b'{"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}}', b"a")),
    ("metadata twice", safetensors_bytes(b'{"__metadata__":{"a":"1"},"__metadata__":{"a":"2"}}')),
    ("metadata of numbers", safetensors_bytes({"__metadata__": {"a": 1}})),
    ("metadata in a list", safetensors_bytes({"__metadata__": []})),
    ("metadata too deep", safetensors_bytes(b'{"__metadata__":{"a":' + b"[" * 300 + b"]" * 300 + b"}}")),
    ("a tensor that is a number", safetensors_bytes({"a": 1}, b"a")),
]
STRICTER: list[tuple[str, bytes]] = [
    (
        "a tensor twice",
        safetensors_bytes(
            b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'
        ),
    ),
    ("an unknown member", safetensors_bytes({"a": {**U8, "x": 1}}, b"ab")),
    ("a blank before it", safetensors_bytes(b" {}")),
    ("a line end behind it", safetensors_bytes(b"{}\n")),
    ("a member of metadata twice", safetensors_bytes(b'{"__metadata__":{"a":"1","a":"2"}}')),
    ("metadata that is nothing", safetensors_bytes({"__metadata__": None})),
    ("a tensor as a list", safetensors_bytes(b'{"a":["U8",[1],[0,1]]}', b"a")),
]


NO_ARRAY = [
    ("more axes than an array has", safetensors_bytes({"a": tensor("U8", [1] * 65, 0, 1)}, b"a")),
    ("more than an array holds, then none", safetensors_bytes({"a": tensor("U8", [2**63, 0], 0, 0)})),
    ("too many numbers of two bytes, then none", safetensors_bytes({"a": tensor("I16", [2**62, 0], 0, 0)})),
]


@pytest.mark.parametrize("content", [pytest.param(one, id=name) for name, one in NO_ARRAY])
def test_a_shape_that_no_array_has_is_refused_before_one_is_made(content: bytes) -> None:
    with pytest.raises(SealedFileError) as outcome:
        open_tensors(reader_of(content))
    assert outcome.value.code == "safetensors-malformed"


@pytest.mark.parametrize("content", [pytest.param(one, id=name) for name, one in HOSTILE])
def test_what_the_library_refuses_is_refused(content: bytes) -> None:
    with pytest.raises(safetensors.SafetensorError):
        deserialize(content)
    plain = Plain(content)
    with pytest.raises(SealedFileError) as error:
        open_tensors(plain)
    assert error.value.code in {"safetensors-malformed", "safetensors-dtype-unknown"}
    assert plain.closed


@pytest.mark.parametrize("content", [pytest.param(one, id=name) for name, one in STRICTER])
def test_what_two_readers_could_take_in_two_ways_is_refused_too(content: bytes) -> None:
    deserialize(content)
    with pytest.raises(SealedFileError):
        open_tensors(Plain(content))


def test_spaces_behind_the_header_are_padding() -> None:
    assert load_tensors(Plain(safetensors_bytes(b"{}      "))) == {}


def test_a_length_is_eight_bytes() -> None:
    with pytest.raises(SealedFileError):
        header_length(b"\0" * 9, file_size=100)


def test_every_changed_byte_of_a_header_gives_the_librarys_answer_or_none() -> None:
    content = safetensors_bytes({"__metadata__": {"k": "v"}, "a": U8, "b": tensor("I16", [2, 1], 2, 6)}, b"abcdef")
    for at in range(len(content) - 6):
        for change in (1, 2, 16, 32, 128):
            altered = bytearray(content)
            altered[at] ^= change
            compare(bytes(altered))
    for end in range(len(content)):
        compare(content[:end])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**65) | st.floats() | st.sampled_from([*DTYPE_BITS, "x", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["dtype", "shape", "data_offsets", "__metadata__", "a"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(header=JSON, data=st.binary(max_size=12))
def test_any_header_is_read_as_the_library_reads_it_or_refused(header: object, data: bytes) -> None:
    compare(safetensors_bytes(json.dumps(header).encode(), data))


@given(st.lists(st.tuples(st.sampled_from(sorted(DTYPE_BITS)), st.lists(st.integers(0, 4), max_size=3)), max_size=5))
def test_any_honest_header_is_read(tensors: list[tuple[str, list[int]]]) -> None:
    bits = [int(np.prod(shape)) * DTYPE_BITS[dtype] for dtype, shape in tensors]
    kept = [(one, size // 8) for one, size in zip(tensors, bits, strict=True) if size % 8 == 0]
    ends = list(accumulate(size for _, size in kept))
    header = {
        str(at): tensor(dtype, shape, ends[at] - size, ends[at]) for at, ((dtype, shape), size) in enumerate(kept)
    }
    content = safetensors_bytes(header, bytes(ends[-1] if ends else 0))
    assert load_tensors(Plain(content)).keys() == header.keys()
    compare(content)


# -- shards


class Model:
    """Files of a model in memory."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.name = "a model"
        self.entries = files
        self.opened: list[Plain] = []

    def open(self, path: str) -> Plain:
        plain = Plain(self.entries[path], path)
        self.opened.append(plain)
        return plain


def sharded(index: object = None, **changes: bytes) -> tuple[Model, Arrays]:
    arrays: Arrays = {"a": np.arange(4), "b": np.arange(5.0), "c": np.arange(6, dtype=np.uint8)}
    files = {
        "x-1.safetensors": safetensors.numpy.save({"a": arrays["a"], "b": arrays["b"]}),
        "x-2.safetensors": safetensors.numpy.save({"c": arrays["c"]}),
    }
    weights = {"a": "x-1.safetensors", "b": "x-1.safetensors", "c": "x-2.safetensors"}
    document = {"metadata": {"total_size": 78}, "weight_map": weights} if index is None else index
    return Model({**files, INDEX_NAME: json.dumps(document).encode(), **changes}), arrays


def test_a_model_of_one_file_and_one_of_shards_load_alike() -> None:
    model, arrays = sharded()
    same(load_model(model), arrays)
    assert all(one.closed for one in model.opened)
    same(load_model(Model({"model.safetensors": safetensors.numpy.save(arrays)})), arrays)


def test_shards_are_read_where_they_are_needed() -> None:
    model, arrays = sharded()
    heard: list[int] = []
    with open_model(model) as tensors:
        assert tensors.keys() == ["a", "b", "c"]
        assert np.array_equal(tensors.get_tensor("c"), arrays["c"])
        assert np.array_equal(tensors.get_slice("b")[2:], arrays["b"][2:])
        assert tensors.info("a").shape == (4,)
        same(tensors.load(["c", "a"], progress=heard.append), {"a": arrays["a"], "c": arrays["c"]})
        for ask in (tensors.get_tensor, tensors.get_slice, tensors.info, lambda name: tensors.load([name])):
            with pytest.raises(ConfigurationError) as error:
                ask("d")
            assert error.value.code == "tensor-unknown"
    assert heard == [32, 38]
    assert all(one.closed for one in model.opened)


FIRST, SECOND = "x-1.safetensors", "x-2.safetensors"


@pytest.mark.parametrize(
    "index",
    [
        [],
        {},
        {"weight_map": []},
        {"weight_map": {"a": 1}},
        {"weight_map": {"a": FIRST, "b": FIRST, "c": SECOND, "d": SECOND}},
        {"weight_map": {"a": FIRST, "b": FIRST, "c": FIRST}},
        {"weight_map": {"a": FIRST, "c": SECOND}},
        {"weight_map": {"a": FIRST, "b": SECOND, "c": SECOND}},
        {"weight_map": {"a": FIRST, "b": FIRST, "c": "absent.safetensors"}},
        {"weight_map": {"a": FIRST, "b": FIRST, "c": "../" + SECOND}},
    ],
)
def test_an_index_that_does_not_fit_is_refused(index: object) -> None:
    model, _ = sharded(index)
    with pytest.raises(SealedFileError) as error:
        load_model(model)
    assert error.value.code == "safetensors-index-mismatch"
    assert all(one.closed for one in model.opened)


def test_an_index_twice_over_or_too_long_or_with_a_tensor_in_two_shards_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from attest.sealed import tensor_set as module

    double, _ = sharded(**{INDEX_NAME: b'{"weight_map":{"a":"x","a":"y"}}'})
    both, _ = sharded(**{SECOND: safetensors.numpy.save({"c": np.arange(1), "a": np.arange(1)})})
    for model in (double, both):
        with pytest.raises(SealedFileError) as error:
            load_model(model)
        assert error.value.code == "safetensors-index-mismatch"
    monkeypatch.setattr(module, "MAX_INDEX_BYTES", 10)
    with pytest.raises(SealedFileError, match="at most 10 bytes"):
        load_model(sharded()[0])


def test_a_model_without_tensors_is_refused() -> None:
    with pytest.raises(ConfigurationError) as error:
        load_model(Model({"weights.bin": b""}))
    assert error.value.code == "safetensors-missing"
