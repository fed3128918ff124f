"""FAISS indexes: which one for how many passages, how much room it takes, built as a stream.

Five names, and any string of FAISS's `index_factory` beside them. With n passages of d numbers:

    name     FAISS           bytes a passage                         finds
    flat     Flat            4 d                                     the exact nearest
    hnsw     HNSW<M>         4 d + links, about 8.1 M + 12           nearly all, in little time
    ivf      IVF<L>,Flat     4 d + 8                                 nearly all
    ivf_sq8  IVF<L>,SQ8      d + 8                                   nearly all
    pq       PQ<m>x<b>       m b / 8                                 many

* M = 16 below 100,000 passages, else 32.
* L = 4 sqrt(n), FAISS's guideline for up to a million passages, but at most n / 39, since k-means
  wants 39 vectors a list; at least 1.
* m = the largest divisor of d that is at most d / 8; b = 8 bits, fewer where n < 256, since 2^b
  centroids need as many passages.
* Trained on 64 vectors a list, at least 16,384 (256 a centroid is all that the codes use: 65,536
  for PQ), drawn with a fixed seed.

A search reads nprobe lists of L; nprobe = 0 stands for 8 sqrt(L), which is two fifths of 384 lists
(of 15,000 passages) and an eighth of 4,000 (of a million). Half as many found 95 % of the exact top
10 in 15,000 real passages, these 98 % (docs/retrieval.md).
"""

import math
import re
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from .embeddings import ChunkedEmbeddings
from .errors import InputError
from .hub import first_line

if TYPE_CHECKING:
    import faiss

NAMES = ("flat", "hnsw", "ivf", "ivf_sq8", "pq")
_FACTORY = re.compile(r"[A-Z][\w,()\[\]]*")
_POINTS_PER_LIST = 39  # fewer, and FAISS warns
_SMALL = 100_000
# The graph of neighbours; 40, FAISS's own, finds 2 to 3 % fewer at the same search effort.
_EF_CONSTRUCTION = 128


def check_type(name: str) -> None:
    """Check that this can be an index type.

    Raises:
        InputError: Neither one of `NAMES` nor shaped like a factory string.
    """
    if name not in NAMES and not _FACTORY.fullmatch(name):
        raise InputError(
            f"type is {name!r}; choose one of {', '.join(NAMES)}, or a FAISS factory string such "
            "as 'IVF4096,SQ8'"
        )


def factory(name: str, passages: int, dimension: int) -> str:
    """The FAISS factory string of a type; see the module's table."""
    if name not in NAMES:
        return name
    lists = num_lists(passages)
    if name == "pq":
        bits = min(8, int(math.log2(passages)))
        return f"PQ{_codes(dimension)}x{bits}" if bits else "Flat"
    return {
        "flat": "Flat",
        "hnsw": f"HNSW{16 if passages < _SMALL else 32}",
        "ivf": f"IVF{lists},Flat",
        "ivf_sq8": f"IVF{lists},SQ8",
    }[name]


def num_lists(passages: int) -> int:
    """Lists of an inverted file."""
    return max(1, min(round(4 * math.sqrt(passages)), passages // _POINTS_PER_LIST))


def _codes(dimension: int) -> int:
    """The largest divisor of the dimension that leaves at least 8 numbers to a code."""
    return max(m for m in range(1, max(1, dimension // 8) + 1) if dimension % m == 0)


def make_empty(kind: str, dimension: int) -> "faiss.Index":
    """An index of a factory string, for inner product.

    Raises:
        InputError: FAISS does not know the string, or it does not suit the dimension.
    """
    import faiss

    try:
        index = faiss.index_factory(dimension, kind, faiss.METRIC_INNER_PRODUCT)
    except RuntimeError as error:
        raise InputError(
            f"type {kind!r}: FAISS makes no such index of {dimension} numbers ({_cause(error)})"
        ) from error
    return index


def training_size(index: "faiss.Index", passages: int) -> int:
    """How many vectors are drawn to train on; 0 where nothing is trained."""
    import faiss

    if index.is_trained:
        return 0
    part = _inner(index)
    lists = part.nlist if isinstance(part, faiss.IndexIVF) else 0
    codes = 0 if isinstance(part, faiss.IndexIVFFlat) else 65_536
    return min(passages, max(64 * lists, codes, 16_384))


def bytes_per_passage(index: "faiss.Index") -> float:
    """Bytes that one more passage takes in an index, on disk and in memory alike."""
    import faiss

    part = faiss.downcast_index(index)
    if isinstance(part, faiss.IndexPreTransform):
        return bytes_per_passage(part.index)
    if isinstance(part, faiss.IndexRefine):
        return bytes_per_passage(part.base_index) + bytes_per_passage(part.refine_index)
    if isinstance(part, faiss.IndexIVF):
        return float(part.code_size + 8)
    if isinstance(part, faiss.IndexHNSW):
        graph: Any = part.hnsw
        neighbours = graph.nb_neighbors(1)
        # 2 M links on the ground floor, M on each further one, which 1 in M passages reaches;
        # 4 bytes a link, 4 for the passage's height, 8 for where its links begin.
        links = 4 * (2 * neighbours + neighbours / (neighbours - 1)) + 12
        return bytes_per_passage(part.storage) + links
    if isinstance(part, faiss.IndexFlatCodes):
        return float(part.code_size)
    return 4.0 * part.d


def fixed_bytes(index: "faiss.Index") -> float:
    """Bytes whatever the corpus: the centroids of the lists and of the codes."""
    import faiss

    part = _inner(index)
    total = 0.0
    if isinstance(part, faiss.IndexIVF):
        total += part.nlist * (bytes_per_passage(part.quantizer) + 16)
    if isinstance(part, faiss.IndexPQ | faiss.IndexIVFPQ):
        total += 4.0 * part.d * 2**part.pq.nbits
    return total


def memory_to_build(index: "faiss.Index", passages: int) -> float:
    """Bytes of the index in memory while it grows, and of the sample it is trained on.

    Inverted lists grow by doubling: half again as much as they hold, on average.
    """
    import faiss

    grow = 1.5 if isinstance(_inner(index), faiss.IndexIVF) else 1.0
    held = grow * passages * bytes_per_passage(index) + fixed_bytes(index)
    # FAISS's k-means works on a copy of its sample.
    return held + 2 * 4.0 * index.d * training_size(index, passages)


def fill(index: "faiss.Index", embeddings: ChunkedEmbeddings) -> None:
    """Train an index and add the embeddings, chunk by chunk.

    Graphs of fewer than 100,000 passages are linked by one thread, so that two builds are equal;
    on more threads a few links of larger ones depend on which was first.

    Raises:
        InputError: Too few passages to train it, or an index that cannot grow or give vectors back.
    """
    import faiss

    passages = embeddings.shape[0]
    threads = faiss.omp_get_max_threads()
    try:
        _prepare(index, passages)
        if size := training_size(index, passages):
            index.train(embeddings.sample(size))
        if _is_graph(index) and passages < _SMALL:
            faiss.omp_set_num_threads(1)
        with tqdm(total=passages, desc="index", unit=" passages", delay=1, disable=None) as bar:
            for chunk in embeddings:
                index.add(chunk)
                bar.update(len(chunk))
        # What it is asked to do when it searches.
        index.search_and_reconstruct(embeddings.sample(1), 1)
    except RuntimeError as error:
        raise InputError(
            f"type: FAISS cannot index {passages:,} passages this way ({_cause(error)}); choose "
            f"one of {', '.join(NAMES)}"
        ) from error
    finally:
        faiss.omp_set_num_threads(threads)


def set_effort(index: "faiss.Index", nprobe: int, ef_search: int) -> None:
    """How many lists or nodes a search looks at; see `Config` of the dense retriever."""
    import faiss

    part = _inner(index)
    if isinstance(part, faiss.IndexIVF):
        part.nprobe = min(part.nlist, nprobe or math.ceil(8 * math.sqrt(part.nlist)))
    elif isinstance(part, faiss.IndexHNSW):
        part.hnsw.efSearch = ef_search


def _prepare(index: "faiss.Index", passages: int) -> None:
    """No warnings about what the clamps allow for, and room for all passages at once."""
    import faiss

    part = _inner(index)
    for owner in (part, getattr(part, "pq", part)):
        if hasattr(owner, "cp"):
            owner.cp.min_points_per_centroid = 1
    if isinstance(part, faiss.IndexPQ):
        # Orders the centroids for a filter that no search here uses, 1.6 s for each code.
        codes: Any = part
        codes.do_polysemous_training = False
    if isinstance(part, faiss.IndexHNSW):
        part.hnsw.efConstruction = max(_EF_CONSTRUCTION, part.hnsw.efConstruction)
        part = faiss.downcast_index(part.storage)
    if isinstance(part, faiss.IndexFlatCodes):
        # A vector that grows by doubling holds up to three times its size when it moves; one that
        # was as large before keeps its room.
        part.codes.resize(passages * part.code_size)
        part.codes.resize(0)


def _is_graph(index: "faiss.Index") -> bool:
    import faiss

    return isinstance(_inner(index), faiss.IndexHNSW)


def _inner(index: "faiss.Index") -> Any:
    """The index inside rotations and refinements."""
    import faiss

    part = faiss.downcast_index(index)
    while isinstance(part, faiss.IndexPreTransform | faiss.IndexRefine):
        inside = part.index if isinstance(part, faiss.IndexPreTransform) else part.base_index
        part = faiss.downcast_index(inside)
    return part


def _cause(error: Exception) -> str:
    """FAISS's message without the place in its source."""
    return first_line(error).rpartition(": ")[2] or type(error).__name__
