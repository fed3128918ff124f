"""Agents that search before they answer: policy, rollouts, batches, algorithms, trainer.

Nothing is exported here on purpose: the OpenAI agents SDK also imports as `agents`, and this
package defines no name that could be taken for one of its own.
"""
