"""The corpus of the server's tests: titles and texts that a careless server would spoil."""

from retrieval.corpus import Corpus
from retrieval.types import Passage

CORPUS = Corpus.of(
    [
        Passage("m1", "Marie Curie", "Marie Curie discovered polonium and radium in Paris."),
        Passage("7", "Radium", "Radium radium radium:\na metal, found with polonium."),
        Passage("e 1/ü", "", "Radium glows; Curie's notebooks are radioactive still."),
        Passage("q1", '"Heroes"', 'A "quoted" title; radium is not in it. Paris is.'),
        Passage("u1", "Žižkov", "Žižkov je čtvrť v Praze. İzmir, Москва, 東京, café, 😀."),
        Passage("x1", "<b>x</b>", "<script>document.title='pwned'</script> & radium &amp; more"),
        Passage("h1", "Heron", "The quick heron waits beside the river in Paris."),
    ]
)
QUERIES = ["radium", "who discovered polonium in Paris", "Москва žižkov 東京 café", "heron river"]
