"""The environment in ten lines (`main`): a scripted agent answers one-hop questions by `env.step`.

    python docs/env_step_example.py

No model, no training: it searches for the question, reads the passage whose title the question
mentions with a regular expression, and answers. It prints the exact match over 100 questions.
"""

import re
import sys
from pathlib import Path

import gymnasium

sys.path.insert(0, str(Path(__file__).parents[1]))  # the checkout, from any working directory

from envs.datasets import atlas

NAME = r"([A-Z]\w+(?: [A-Z]\w+)*)"
# What the question asks for -> how a passage says it; the first that fits.
CLUES = {
    "When|year": r"(\d{4})",
    "friend": rf"friend is {NAME}|{NAME} is h\w+ best friend",
    "work|employer": f"(?:at|employer is) {NAME}",
    "born|birthplace": f"(?:in|from|native of) {NAME}",
    "author|wrote|written": f"by {NAME}|{NAME} wrote",
    "set": f"(?:in|town of) {NAME}",
    "found": f"(?:by|to|was) {NAME}|{NAME} founded",
    "mayor|governs": f"(?:mayor is|governed by) {NAME}|{NAME} is mayor",
    "region": f"(?:in|region of) {NAME}",
    "country": f"of {NAME}",
    "main": f"main town is {NAME}|{NAME} is its main",
    "capital": f"capital (?:is |at )?{NAME}|{NAME} is the capital",
    "language": f"(?:language is|speak) {NAME}|{NAME} is spoken",
    "currency": r"(?:currency (?:is )?the|pay in) (\w+)",
    "town": f"(?:in|town of) {NAME}",
}


def read(question: str, observation: str) -> str:
    """The answer that the passages give to a one-hop question; "unknown" if none does."""
    for title, text in re.findall(r"Doc \d+\(Title: (.*?)\) (.*)", observation):
        if title in question:
            asked, said = question.replace(title, "it"), text.replace(title, "it")
            fact = next(fact for clue, fact in CLUES.items() if re.search(clue, asked))
            match = re.search(fact, said)
            return next(filter(None, match.groups())) if match else "unknown"
    return "unknown"


def main() -> None:
    """Play 100 questions."""
    dataset = atlas.build(atlas.Config(split="test", hops=(1,), limit=100))
    env = gymnasium.make("envs:SearchQA-v0", dataset=dataset)
    total = 0.0
    for question in dataset.questions:
        text, _ = env.reset(options={"question": question})
        observation, *_ = env.step(f"<think>I look it up.</think><search>{text}</search>")
        answer = read(text, observation)
        _, reward, *_ = env.step(f"<answer>{answer}</answer>")
        total += float(reward)
    print(
        f"exact match {total / len(dataset.questions):.2f} over {len(dataset.questions)} questions"
    )


if __name__ == "__main__":
    main()
