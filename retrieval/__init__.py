"""Text in, ranked passages out: corpora, search engines, and the memo in front of them."""
