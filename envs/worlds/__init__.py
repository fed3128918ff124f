"""Generated worlds: entities with functional relations, their passages, questions and an expert."""
