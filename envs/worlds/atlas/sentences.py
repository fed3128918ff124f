"""The sentences of the world `atlas`: what its passages are made of."""

SENTENCES = {
    "person": (
        (
            "{name} is a {trade} born in {born} in {birth_year}.",
            "Born in {born} in {birth_year}, {name} is a {trade}.",
            "The {trade} {name} was born in {birth_year} in {born}.",
            "{name}, a {trade}, is a native of {born} and was born in {birth_year}.",
            "{name} was born in {born} in {birth_year} and became a {trade}.",
        ),
        (
            "{She} works at {employer}, and {her} best friend is {friend}.",
            "{Her} best friend is {friend}, and {she} works at {employer}.",
            "{She} is employed at {employer}. {friend} is {her} best friend.",
            "{Her} employer is {employer}; {her} best friend is {friend}.",
        ),
    ),
    "work": (
        (
            "{name} is a {genre} by {author}, published in {published}.",
            "{author} wrote the {genre} {name}, which came out in {published}.",
            "{name}, a {genre} written by {author}, was published in {published}.",
            "Published in {published}, the {genre} {name} was written by {author}.",
        ),
        (
            "It is set in {setting}.",
            "The story takes place in {setting}.",
            "Its setting is the town of {setting}.",
            "Its action takes place in {setting}.",
        ),
    ),
    "institution": (
        (
            "{name} is in {site}.",
            "{name} stands in the town of {site}.",
            "{name} has its home in {site}.",
            "The town of {site} is home to {name}.",
        ),
        (
            "It was founded in {opened} by {founder}.",
            "{founder} founded it in {opened}.",
            "Its founder, in {opened}, was {founder}.",
            "It goes back to {founder}, who founded it in {opened}.",
        ),
    ),
    "town": (
        (
            "{name} is a town in {region}, chartered in {chartered}.",
            "{name}, a town in the region of {region}, got its charter in {chartered}.",
            "The town of {name} lies in {region} and was chartered in {chartered}.",
            "Chartered in {chartered}, {name} is a town in the region of {region}.",
        ),
        (
            "Its mayor is {mayor}, and it is known for {product}.",
            "Known for {product}, it is governed by {mayor}.",
            "The mayor is {mayor}. The town makes {product}.",
            "{mayor} is mayor of the town, which sells {product}.",
        ),
    ),
    "region": (
        (
            "{name} is a region of {country}.",
            "{name} is one of the regions of {country}.",
            "The region of {name} is part of {country}.",
            "{name} is a region in the country of {country}.",
        ),
        (
            "Its main town is {seat}.",
            "The main town is {seat}.",
            "{seat} is its main town.",
            "The largest place and main town is {seat}.",
        ),
    ),
    "country": (
        (
            "{name} is a country with the capital {capital}.",
            "The country of {name} has its capital at {capital}.",
            "{capital} is the capital of the country {name}.",
            "{name} is a country whose capital is {capital}.",
        ),
        (
            "Its language is {language} and its currency the {currency}.",
            "People speak {language} and pay in {currency}.",
            "The language is {language}; the currency is the {currency}.",
            "{language} is spoken there, and the currency is the {currency}.",
        ),
    ),
}

# They mention an entity and a place that have nothing to do with each other.
DISTRACTORS = {
    "person": (
        ("Letters to {name}", "A bundle of letters found in an attic in {place}. Few are dated."),
        ("Portrait of {name}", "A small painting, shown once in {place}. Its maker is unknown."),
        ("Talk about {name}", "An evening talk held in {place}. It said little about the career."),
        ("{name} Street", "A short street in {place}. It was named after an admired visitor."),
    ),
    "town": (
        ("Map of {name}", "An old map drawn in {place}. It shows streets that no longer exist."),
        ("Road to {name}", "A country road that starts near {place}. It is closed in winter."),
        ("Song of {name}", "A slow folk song from {place}. It tells of a lost harvest."),
        ("View of {name}", "A photograph kept in {place}. It shows a market in the rain."),
    ),
    "institution": (
        ("Friends of {name}", "A club that meets in {place}. It collects gifts and old books."),
        ("Guide to {name}", "A booklet printed in {place}. It lists rooms and opening hours."),
        ("Debate at {name}", "A long debate reported in {place}. Nobody agreed in the end."),
        ("Medal of {name}", "A bronze medal struck in {place}. It is given every second year."),
    ),
    "work": (
        ("Review of {name}", "A short review printed in {place}. The critic was not amused."),
        ("Stage version of {name}", "A play performed in {place}. It closed after three nights."),
        ("Readers of {name}", "A reading circle in {place}. It meets on winter evenings."),
        ("Copy of {name}", "A worn copy sold at an auction in {place}. The buyer is unknown."),
    ),
}
