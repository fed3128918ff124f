"""Each scripted method against the turns and prompts that its paper's algorithm asks for."""

import pytest

from agents.methods import TagAgent
from envs.types import Dataset, Question
from retrieval.errors import InputError
from tests.agents import builds
from tests.agents.scripts import WrittenChat, build, play_one, queries, replying

QUESTION = next(q for q in builds.world().questions if len(q.supporting_titles) == 2)
CHOICE = Question("c", "Which is it?", ("B", "Lyon"), {"A": "Paris", "B": "Lyon"})


def text_of(chat: WrittenChat, index: int) -> str:
    return "\n".join(message.content for message in chat.asked[index].messages)


def test_direct_asks_for_the_answer_alone() -> None:
    chat = replying("\n  Vell Orm.\nBecause I say so.")
    episode = play_one(build("direct"), chat, QUESTION)
    assert episode.answer == "Vell Orm" and episode.num_searches == 0
    assert len(chat.asked) == 1 and QUESTION.prompt in text_of(chat, 0)
    assert "a few words" in text_of(chat, 0)


def test_direct_shows_the_options_and_asks_for_a_letter() -> None:
    chat = replying("B")
    assert play_one(build("direct"), chat, CHOICE).answer == "B"
    assert "A) Paris\nB) Lyon" in text_of(chat, 0) and "letter" in text_of(chat, 0)


def test_cot_answers_what_its_reasoning_concludes() -> None:
    reply = "Orm was born in Vell. Vell lies in Tor.\nSo the answer is: Tor.\nI am sure."
    episode = play_one(build("cot"), replying(reply), QUESTION)
    assert episode.answer == "Tor"
    assert episode.steps[0].action.text == f"<think>{reply}</think>\n<answer>Tor</answer>"


def test_rag_searches_once_with_the_question_and_reads_what_is_shown() -> None:
    chat = replying("Tor")
    episode = play_one(build("rag"), chat, QUESTION)
    assert queries(episode) == [QUESTION.text] and episode.answer == "Tor"
    hits = episode.steps[0].hits
    assert len(hits) == 2 and all(hit.passage.text in text_of(chat, 0) for hit in hits)


def test_rag_does_not_search_with_the_options() -> None:
    assert queries(play_one(build("rag"), replying("B"), CHOICE)) == ["Which is it?"]


def test_ircot_searches_with_every_sentence_until_one_states_the_answer() -> None:
    title, other = QUESTION.supporting_titles
    replies = (
        f"{title} is the first. And another sentence.",
        f"{other} is the second.",
        "So the answer is: Tor.",
        "It follows. So the answer is: Tor",
    )
    chat = replying(*replies)
    episode = play_one(build("ircot"), chat, QUESTION, max_turns=6)
    first, second = f"{title} is the first.", f"{other} is the second."
    assert queries(episode) == [QUESTION.text, first, second]
    assert episode.answer == "Tor" and len(chat.asked) == 4
    assert text_of(chat, 1).endswith(f"Answer so far: {first}")
    assert text_of(chat, 2).endswith(f"Answer so far: {first} {second}")
    # The reader gets every passage once, in the order found.
    found = [hit.passage for step in episode.steps for hit in step.hits]
    assert len({p.id for p in found}) < len(found)
    for passage in found:
        assert text_of(chat, 3).count(passage.text) == 1


def test_ircot_reads_when_its_turns_run_out() -> None:
    chat = replying("One thought.", "Two thoughts.", "So the answer is: Tor")
    episode = play_one(build("ircot"), chat, QUESTION, max_turns=4)
    # Three searches and an answer: the third search is the last turn but one.
    assert queries(episode) == [QUESTION.text, "One thought.", "Two thoughts."]
    assert episode.answer == "Tor" and len(episode.steps) == 4


def test_ircot_keeps_at_most_15_passages() -> None:
    titles = [passage.title for passage in builds.world().passages or ()]
    chat = WrittenChat(lambda request: f"Let me see {titles[3 * len(chat.asked)]}.")
    play_one(build("ircot"), chat, QUESTION, max_turns=8, top_k=9, max_observation_tokens=9000)
    assert text_of(chat, -1).count("Title: ") == 15


BEGIN, END = "<|begin_search_query|>", "<|end_search_query|>"


def test_search_o1_digests_documents_and_goes_on_with_the_digest_alone() -> None:
    title = QUESTION.supporting_titles[0]
    chat = replying(
        f"I need to know. {BEGIN} {title} {END}",
        "It was found in Vell.",
        r"So it is \boxed{Tor}.",
    )
    episode = play_one(build("search_o1"), chat, QUESTION)
    assert queries(episode) == [title] and episode.answer == "Tor"
    thinking, digesting, going_on = chat.asked
    assert thinking.stop == (END,) and digesting.stop == ()
    documents = episode.steps[0].observation
    assert documents in text_of(chat, 1) and f"Query: {title}" in text_of(chat, 1)
    so_far = going_on.messages[-1]
    assert so_far.role == "assistant"
    assert so_far.content == (
        f"I need to know. {BEGIN} {title} {END}\n\n"
        "<|begin_search_result|> It was found in Vell. <|end_search_result|>\n\n"
    )
    assert episode.steps[0].hits[0].passage.text not in so_far.content


def test_search_o1_must_answer_when_its_turns_run_out() -> None:
    chat = WrittenChat(lambda request: f"{BEGIN}Vell{END}" if request.stop else "Nothing.")
    episode = play_one(build("search_o1"), chat, QUESTION, max_turns=3)
    assert queries(episode) == ["Vell", "Vell"] and len(episode.steps) == 3
    assert episode.stop_reason == "answered"


def test_oracle_reads_the_evidence_and_searches_for_nothing() -> None:
    chat = replying("Tor")
    episode = play_one(build("oracle"), chat, QUESTION)
    passages = {p.title: p for p in builds.world().passages or ()}
    for title in QUESTION.supporting_titles:
        assert passages[title].text in text_of(chat, 0)
    assert text_of(chat, 0).count("Title: ") == 2 and episode.num_searches == 0
    few = replying("Tor")
    play_one(build("oracle", max_passages=1), few, QUESTION)
    assert text_of(few, 0).count("Title: ") == 1


def test_oracle_needs_the_evidence() -> None:
    with pytest.raises(InputError, match=r"give --retriever\.corpus FILE"):
        build("oracle", with_corpus=False)
    with pytest.raises(InputError, match=r"no evidence of 1 of 2 questions \(such as 'c'\)"):
        build("oracle", Dataset([QUESTION, CHOICE]))


def test_scripted_answers_with_the_best_title_that_the_question_does_not_name() -> None:
    nobody = WrittenChat(lambda request: pytest.fail("asked a model"))
    for question in builds.world().questions:
        episode = play_one(build("scripted"), nobody, question)
        titles = [hit.passage.title for hit in episode.steps[0].hits]
        assert episode.answer in titles
        assert episode.answer not in question.text or all(t in question.text for t in titles)


def test_scripted_picks_the_option_whose_words_were_found() -> None:
    nobody = WrittenChat(lambda request: pytest.fail("asked a model"))
    passage = (builds.world().passages or ())[0]
    named = Question(
        "n", f"Tell me of {passage.title}", ("B",), {"A": "quite unheard of", "B": passage.title}
    )
    assert play_one(build("scripted"), nobody, named).answer == "B"
    # Of equals the first.
    assert play_one(build("scripted"), nobody, CHOICE).answer == "A"


def test_the_worlds_expert_is_always_right() -> None:
    nobody = WrittenChat(lambda request: pytest.fail("asked a model"))
    method = build("scripted", expert=True)
    for question in builds.world().questions:
        episode = play_one(method, nobody, question, max_turns=6)
        assert episode.answer == question.answers[0] and episode.reward == 1.0


def test_an_expert_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match=r"method\.expert: this dataset has no expert"):
        build("scripted", Dataset([CHOICE]), expert=True)


def test_methods_of_training_know_how_the_agent_was_trained() -> None:
    assert build("sft", trained_with="sft") == TagAgent(turns=1)
    assert build("rejection_sampling", trained_with="rejection_sampling") == TagAgent()
    with pytest.raises(InputError, match="sft needs a trained agent"):
        build("sft")
    with pytest.raises(InputError, match="this one's is grpo"):
        build("rejection_sampling", trained_with="grpo")
    with pytest.raises(InputError, match="this one's is not trained"):
        build("rejection_sampling")
