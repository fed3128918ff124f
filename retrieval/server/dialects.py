"""The dialects of search servers that trainers speak: one index answers them all.

* search_r1 (Search-R1, verl, slime, GEM, SkyRL): `POST /retrieve {queries, topk, return_scores}`
  -> `{result: [[{document: {id, contents}, score}]]}`, without scores `[[{id, contents}]]`
* verl_agent (and older SkyRL): `POST /retrieve {query, topk, return_scores}` -> the same for one
* ragen (RAGEN, rllm): `POST /retrieve {query, top_k or k}`
  -> `{query, method, results: [{id, content, score, document}], num_results}`
* recall (ReCall, ReSearch): `POST /search {query, top_n, return_score}`
  -> `[{id, contents}]`, with scores `[documents, scores]`
* recall_batch: `POST /batch_search {query: [...], top_n, return_score}`
  -> `[[{id, contents}]]`, with scores `[[documents], [scores]]`
* pyserini (and Anserini): `GET /v1/{index}/search?query=&hits=&parse=`
  -> `{api, index, query: {text}, candidates: [{docid, score, rank, doc}]}`
* searxng (AgileRL and other clients of SearXNG): `GET /?q=&format=json`
  -> `{query, number_of_results, results: [{title, content, url, score}]}`
* native (ours): `POST /api/search {queries, k}`
  -> `{answers: [[{id, title, text, score, rank}]]}`, all exact

`contents` is the quoted title, a newline and the text. A query has its own list of documents in
every answer, also where it is empty. Two things are stricter here than on the servers imitated:
k = 0 is refused (Search-R1's takes it for null), and so is an unknown field of a JSON body. One is
kinder: an empty query has no documents (RAGEN's and ReCall's servers refuse it).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from ..types import Hit, Passage
from .fields import Fields, Refused

Answers = list[list[Hit]]

# What ReCall's, RAGEN's and pyserini's servers give where the request names no number.
_USUAL_K = 10


@dataclass(frozen=True, slots=True)
class Ask:
    """What a request comes down to.

    Attributes:
        queries: At most the server's limit.
        k: At least 1.
        option: The dialect's one switch: whether scores are wanted, or (pyserini) documents parsed.
    """

    queries: list[str]
    k: int
    option: bool = True


@dataclass(frozen=True, slots=True)
class Dialect:
    """How to read a request and how to write its answer.

    Attributes:
        name: As in the table.
        request: What it looks like, for people.
        read: (fields, the server's default k) -> what is asked.
        write: (ask, answers, name of the index) -> JSON.
    """

    name: str
    request: str
    read: Callable[[Fields, int], Ask]
    write: Callable[[Ask, Answers, str], Any]


def contents(passage: Passage) -> str:
    """Search-R1's one-string form of a passage."""
    return f'"{passage.title}"\n{passage.text}'


def choose_retrieve(values: Mapping[str, object]) -> Dialect:
    """Which of the three dialects of `POST /retrieve` a body is in.

    Raises:
        Refused: 400, neither `queries` nor `query`, or both.
    """
    several, one = values.get("queries") is not None, values.get("query") is not None
    if several == one:
        raise Refused(400, "send either queries, a list, or query, a string")
    if several:
        return SEARCH_R1
    return VERL_AGENT if {"topk", "return_scores"} & set(values) else RAGEN


def _document(hit: Hit) -> dict[str, str]:
    return {"id": hit.passage.id, "contents": contents(hit.passage)}


def _result(ask: Ask, answers: Answers, index: str) -> Any:
    if not ask.option:
        return {"result": [[_document(hit) for hit in hits] for hits in answers]}
    scored = [
        [{"document": _document(hit), "score": hit.score} for hit in hits] for hits in answers
    ]
    return {"result": scored}


def _read_search_r1(fields: Fields, default_k: int) -> Ask:
    k = fields.k("topk", "top_k", "k", default=default_k)
    return Ask(fields.queries("queries"), k, fields.flag("return_scores", False))


def _read_verl_agent(fields: Fields, default_k: int) -> Ask:
    k = fields.k("topk", "top_k", "k", default=default_k)
    return Ask([fields.query("query")], k, fields.flag("return_scores", False))


def _read_ragen(fields: Fields, default_k: int) -> Ask:
    return Ask([fields.query("query")], fields.k("top_k", "k", default=_USUAL_K))


def _write_ragen(ask: Ask, answers: Answers, index: str) -> Any:
    # RAGEN's client reads id and content, rllm's the document.
    results = [
        {
            "id": hit.passage.id,
            "content": contents(hit.passage),
            "score": hit.score,
            "document": _document(hit),
        }
        for hit in answers[0]
    ]
    return {
        "query": ask.queries[0],
        "method": index,
        "results": results,
        "num_results": len(results),
    }


def _read_recall(fields: Fields, default_k: int) -> Ask:
    k = fields.k("top_n", default=_USUAL_K)
    return Ask([fields.query("query")], k, fields.flag("return_score", False))


def _write_recall(ask: Ask, answers: Answers, index: str) -> Any:
    documents = [_document(hit) for hit in answers[0]]
    return [documents, [hit.score for hit in answers[0]]] if ask.option else documents


def _read_recall_batch(fields: Fields, default_k: int) -> Ask:
    k = fields.k("top_n", default=_USUAL_K)
    return Ask(fields.queries("query"), k, fields.flag("return_score", False))


def _write_recall_batch(ask: Ask, answers: Answers, index: str) -> Any:
    documents = [[_document(hit) for hit in hits] for hits in answers]
    scores = [[hit.score for hit in hits] for hits in answers]
    return [documents, scores] if ask.option else documents


def _read_pyserini(fields: Fields, default_k: int) -> Ask:
    k = fields.k("hits", default=_USUAL_K)
    return Ask([fields.query("query")], k, fields.flag("parse", True))


def _write_pyserini(ask: Ask, answers: Answers, index: str) -> Any:
    # A parsed document whose only field is its contents is that field.
    candidates = [
        {
            "docid": hit.passage.id,
            "score": hit.score,
            "rank": hit.rank,
            "doc": contents(hit.passage) if ask.option else _document(hit),
        }
        for hit in answers[0]
    ]
    query = {"text": ask.queries[0]}
    return {"api": "v1", "index": index, "query": query, "candidates": candidates}


def _read_searxng(fields: Fields, default_k: int) -> Ask:
    # Clients send language, categories, safesearch and more: nothing here depends on them.
    return Ask([fields.query("q")], fields.k("k", default=_USUAL_K))


def _write_searxng(ask: Ask, answers: Answers, index: str) -> Any:
    results = [
        {
            "url": f"urn:passage:{quote(hit.passage.id, safe='')}",
            "title": hit.passage.title,
            "content": contents(hit.passage),
            "engine": index,
            "engines": [index],
            "category": "general",
            "positions": [hit.rank],
            "score": hit.score,
        }
        for hit in answers[0]
    ]
    empty = ("answers", "corrections", "infoboxes", "suggestions", "unresponsive_engines")
    return {
        "query": ask.queries[0],
        "number_of_results": len(results),
        "results": results,
        **{name: [] for name in empty},
    }


def _read_native(fields: Fields, default_k: int) -> Ask:
    return Ask(fields.queries("queries"), fields.k("k", default=default_k))


def _write_native(ask: Ask, answers: Answers, index: str) -> Any:
    return {
        "answers": [
            [
                {
                    "id": hit.passage.id,
                    "title": hit.passage.title,
                    "text": hit.passage.text,
                    "score": hit.score,
                    "rank": hit.rank,
                }
                for hit in hits
            ]
            for hits in answers
        ]
    }


SEARCH_R1 = Dialect(
    "search_r1", "POST /retrieve {queries, topk, return_scores}", _read_search_r1, _result
)
VERL_AGENT = Dialect(
    "verl_agent", "POST /retrieve {query, topk, return_scores}", _read_verl_agent, _result
)
RAGEN = Dialect("ragen", "POST /retrieve {query, top_k or k}", _read_ragen, _write_ragen)
RECALL = Dialect("recall", "POST /search {query, top_n, return_score}", _read_recall, _write_recall)
RECALL_BATCH = Dialect(
    "recall_batch",
    "POST /batch_search {query: [], top_n, return_score}",
    _read_recall_batch,
    _write_recall_batch,
)
PYSERINI = Dialect(
    "pyserini", "GET /v1/{index}/search?query=&hits=&parse=", _read_pyserini, _write_pyserini
)
SEARXNG = Dialect("searxng", "GET /?q=&format=json", _read_searxng, _write_searxng)
NATIVE = Dialect("native", "POST /api/search {queries, k}", _read_native, _write_native)

DIALECTS = (SEARCH_R1, VERL_AGENT, RAGEN, RECALL, RECALL_BATCH, PYSERINI, SEARXNG, NATIVE)
