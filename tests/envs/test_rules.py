"""The rules of searches: which queries are allowed, and which passages are shown."""

import dataclasses

import pytest

from envs.actions import INVALID, LAST_TURN, OPTION_NAMED, REMINDER, count_words
from envs.limits import MIN_OBSERVATION_TOKENS, EnvLimits
from envs.registration import make_env
from envs.rules import SearchRules, named_option, select
from envs.search_env import SearchEnv
from envs.types import ActionKind, Question, StopReason
from retrieval.corpus import Corpus
from retrieval.errors import InputError
from retrieval.retrievers import bm25s
from retrieval.types import Hit, Passage
from tests.envs.engines import Shelf

# All hold "heron"; ids in the order in which a search for it finds them.
HERONS = [Passage(f"p{number:03d}", f"Heron {number}", f"heron {number}") for number in range(40)]
QUESTION = Question("q1", "Where does the heron live?", ("river",), source_ids=("p000", "p002"))
QUIZ = Question(
    "q2",
    "A man of 60 has chest pain after aspirin. Which drug helps?",
    ("B", "Beta-blocker"),
    {"A": "Aspirin", "B": "Beta-blocker", "C": "The ACE inhibitor", "D": "Ca", "E": "maybe"},
)


def make(engine, question=QUESTION, top_k=2, max_turns=9, **rules):
    env = SearchEnv(
        questions=[question],
        retriever=engine,
        reward={"exact_match": 1.0},
        limits=EnvLimits(top_k=top_k, max_turns=max_turns),
        rules=SearchRules(**rules),
    )
    env.reset()
    return env


def shown(env, query="heron"):
    step = env.step(f"<search>{query}</search>")[4]["step"]
    return [hit.passage.id for hit in step.hits], step.repeats, step.excluded


class Ks(Shelf):
    """Keeps the numbers of passages that it was asked for."""

    def __init__(self, *passages):
        super().__init__(*passages)
        self.ks = []

    def search(self, queries, k):
        self.ks.append(k)
        return super().search(queries, k)


class TestNovelOnly:
    def test_every_turn_shows_what_no_turn_has_shown(self):
        env = make(Shelf(*HERONS), novel_only=True)
        assert shown(env) == (["p000", "p001"], 0, 0)
        assert shown(env) == (["p002", "p003"], 2, 0)
        assert shown(env) == (["p004", "p005"], 4, 0)
        env.reset()
        assert shown(env) == (["p000", "p001"], 0, 0)

    def test_without_the_rule_repeats_are_shown_and_counted(self):
        env = make(Shelf(*HERONS))
        assert [shown(env), shown(env)] == [(["p000", "p001"], n, 0) for n in (0, 2)]

    def test_a_corpus_runs_dry(self):
        env = make(Shelf(*HERONS[:3]), novel_only=True)
        assert [shown(env) for _ in range(3)] == [
            (["p000", "p001"], 0, 0),
            (["p002"], 2, 0),
            ([], 3, 0),
        ]
        assert env.episode.num_searches == 3


class TestFilling:
    def test_copies_make_room_for_other_passages(self):
        # Ten copies of each: without asking for more, three hits would be one passage.
        copies = [
            dataclasses.replace(HERONS[number // 10], id=f"c{number:02d}") for number in range(30)
        ]
        engine = Ks(*copies)
        assert shown(make(engine, top_k=3)) == (["c00", "c10", "c20"], 0, 0)
        # The first as many as a rollout has fetched for all; 21 of them hold three passages.
        assert engine.ks == [3, 6, 12, 24]

    def test_an_engine_is_asked_once_where_nothing_is_left_out(self):
        engine = Ks(*HERONS)
        shown(make(engine, novel_only=True, excluded_ids={"elsewhere"}))
        shown(make(engine))
        assert engine.ks == [2, 2]

    def test_an_engine_that_has_no_more_is_asked_no_more(self):
        engine = Ks(HERONS[0])
        assert shown(make(engine, top_k=3, excluded_ids={"p000"})) == ([], 0, 1)
        assert engine.ks == [3]

    def test_the_search_for_others_ends(self):
        copies = [dataclasses.replace(HERONS[0], id=f"c{number:04d}") for number in range(2000)]
        engine = Ks(*copies)
        assert shown(make(engine, top_k=3)) == (["c0000"], 0, 0)
        # 16 times as many as are shown.
        assert engine.ks == [3, 6, 12, 24, 48]

    def test_what_is_found_too_deep_for_the_depth_alone_is_found_by_the_number_of_exclusions(self):
        every = [Passage(f"p{n:04d}", f"Heron {n}", "heron") for n in range(500)]
        excluded = {passage.id for passage in every[:400]}
        env = make(Shelf(*every), excluded_ids=excluded)
        assert shown(env) == (["p0400", "p0401"], 0, 400)


class TestExclusion:
    def test_ids_are_left_out_replaced_and_counted(self):
        env = make(Shelf(*HERONS), excluded_ids={"p000", "p003", "p039"})
        assert shown(env) == (["p001", "p002"], 0, 1)
        assert shown(env, "39 3") == ([], 0, 2)

    def test_what_ranks_below_the_hits_is_not_counted(self):
        assert shown(make(Shelf(*HERONS), excluded_ids={"p002"})) == (["p000", "p001"], 0, 0)

    def test_a_copy_of_an_excluded_passage_is_another_passage(self):
        # Exclusion is by id, as it says: leave out the copies' ids too.
        copy = dataclasses.replace(HERONS[0], id="p900")
        env = make(Shelf(HERONS[0], copy), excluded_ids={"p000"})
        assert shown(env) == (["p900"], 0, 1)

    def test_the_sources_of_a_question_are_left_out_only_when_asked_for(self):
        assert shown(make(Shelf(*HERONS))) == (["p000", "p001"], 0, 0)
        assert shown(make(Shelf(*HERONS), exclude_sources=True)) == (["p001", "p003"], 0, 2)
        ruled = dataclasses.replace(QUESTION, rules=("exclude_sources",))
        env = make(Shelf(*HERONS), ruled, excluded_ids={"p001"})
        assert shown(env) == (["p003", "p004"], 0, 3)
        # The next question has its own.
        env.reset(options={"question": dataclasses.replace(ruled, source_ids=("p003",))})
        assert shown(env) == (["p000", "p002"], 0, 1)

    @pytest.mark.parametrize("known", [None, bm25s])
    def test_the_passage_that_a_question_was_made_from_is_never_shown(self, known):
        # Forty questions, each made from one passage, each asked in that passage's own words.
        engine = Shelf(*HERONS) if known is None else known.build(known.Config(), Corpus.of(HERONS))
        for passage in HERONS:
            question = Question("q", passage.text, ("x",), source_ids=(passage.id,))
            ids, _, excluded = shown(make(engine, question, exclude_sources=True), passage.text)
            assert passage.id not in ids and len(ids) == 2 and excluded == 1


class TestStrictQueries:
    @pytest.mark.parametrize(
        ("query", "letter"),
        [
            ("beta-blocker chest pain", "B"),
            ("Is the BETA  blocker good?", "B"),
            ("beta\u2011blocker", "B"),
            ("ace inhibitor", "C"),
            ("ACE Inhibitors", None),  # whole words
            ("inhibitor of ace", None),  # one after the other
            ("betablocker", None),
            ("drugs that block the beta receptor", None),
            ("aspirin", None),  # the question names it too
            ("ca channel", None),  # fewer than three letters
            ("maybe", None),  # a verdict
            ("\uff21\uff23\uff25 inhibitor", "C"),  # full-width letters
            ("", None),
        ],
    )
    def test_what_names_an_option(self, query, letter):
        assert named_option(query, QUIZ) == letter

    def test_a_query_that_names_an_option_is_an_invalid_turn_with_a_reminder(self):
        engine = Shelf(Passage("p", "Heart", "beta blocker helps pain"))
        env = make(engine, QUIZ, max_turns=4, strict_queries=True)
        observation, reward, terminated, truncated, info = env.step("<search>beta blocker</search>")
        assert (observation, reward, terminated, truncated) == (OPTION_NAMED, 0.0, False, False)
        step = info["step"]
        assert (step.action.kind, step.hits) == (ActionKind.INVALID, ())
        assert step.action.content == "a query that names option B"
        assert step.action.text == "<search>beta blocker</search>"
        assert engine.queries == []
        assert env.step("hm")[0] == REMINDER
        assert env.step("<search>pain helps</search>")[0].startswith("<information>Doc 1(Title: He")
        assert (env.episode.num_invalid, env.episode.num_searches) == (2, 1)
        # The last turn is for the answer, which may of course name an option.
        assert env.step("<answer>Beta-blocker</answer>")[:4] == ("", 1.0, True, False)

    def test_the_reminder_gives_way_to_the_request_to_answer(self):
        env = make(Shelf(), QUIZ, max_turns=2, strict_queries=True)
        assert env.step("<search>beta blocker</search>")[0] == f"{INVALID}\n{LAST_TURN}"
        env.step("<search>beta blocker</search>")
        assert env.episode.stop_reason is StopReason.TURN_LIMIT

    def test_it_fits_where_an_observation_does(self):
        assert count_words(OPTION_NAMED) <= MIN_OBSERVATION_TOKENS
        assert OPTION_NAMED.startswith(INVALID) and OPTION_NAMED != REMINDER

    def test_without_the_rule_or_without_options_everything_may_be_asked(self):
        for question, rules in ((QUIZ, {}), (QUESTION, {"strict_queries": True})):
            env = make(Shelf(), question, **rules)
            step = env.step("<search>beta blocker river</search>")[4]["step"]
            assert step.action.kind is ActionKind.SEARCH

    def test_a_question_may_bring_the_rule(self):
        env = make(Shelf(), dataclasses.replace(QUIZ, rules=("strict_queries",)))
        assert env.step("<search>beta blocker</search>")[0] == OPTION_NAMED
        env.reset(options={"question": QUIZ})
        assert env.step("<search>beta blocker</search>")[0] != OPTION_NAMED


def test_rules_and_those_of_the_question_add_up():
    mine = SearchRules(novel_only=True, excluded_ids={"a"})
    question = dataclasses.replace(QUESTION, rules=("strict_queries", "exclude_sources"))
    both = SearchRules(True, True, True, frozenset({"a", "p000", "p002"}))
    assert mine.of(question) == both
    assert mine.of(QUESTION) == mine


def test_an_unknown_rule_of_a_question_is_refused_at_reset():
    env = make(Shelf())
    with pytest.raises(InputError, match="rules: unknown 'strict'; choose of novel_only, strict_q"):
        env.reset(options={"question": dataclasses.replace(QUESTION, rules=("strict",))})


def test_one_id_is_not_a_set_of_ids():
    with pytest.raises(InputError, match="excluded_ids is 'p1'; give a set of passage ids"):
        SearchRules(excluded_ids="p1")


def test_select_by_hand():
    hits = [Hit(HERONS[n % 7], 1.0 / (n + 1), n + 1) for n in range(20)]
    hits = [
        dataclasses.replace(h, passage=dataclasses.replace(h.passage, id=f"i{h.rank}"))
        for h in hits
    ]
    rules = SearchRules(novel_only=True, excluded_ids={"i1", "i4", "i9"})
    seen = {(HERONS[2].title, HERONS[2].text)}
    # i1 is excluded, i2 shown, i3 was shown before, i4 excluded, i5 to i7 shown, i8 shown (its
    # first copy, i1, was excluded), i9 excluded (and a copy of i2), i10 shown before.
    found = select(hits, 5, rules, seen)
    assert [hit.passage.id for hit in found.hits] == ["i2", "i5", "i6", "i7", "i8"]
    assert (found.excluded, found.repeats) == (2, 1)
    found = select(hits, 6, rules, seen)
    assert [hit.passage.id for hit in found.hits] == ["i2", "i5", "i6", "i7", "i8", "i11"]
    assert (found.excluded, found.repeats) == (3, 2)


def test_make_env_takes_rules_beside_limits():
    env = make_env([QUESTION], Shelf(*HERONS), top_k=1, novel_only=True, excluded_ids={"p001"})
    env.reset()
    assert [shown(env)[0], shown(env)[0]] == [["p000"], ["p002"]]
    with pytest.raises(InputError, match=r"unknown \['novel'\]; .* rules are novel_only, "):
        make_env([QUESTION], Shelf(), novel=True)
