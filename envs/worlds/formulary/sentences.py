"""The sentences of the world `formulary`: what its passages are made of."""

SENTENCES = {
    "drug": (
        (
            "{name} is a {form} that treats {treats}.",
            "{name} is a {form} given for {treats}.",
            "The {form} {name} is used against {treats}.",
            "Doctors prescribe the {form} {name} for {treats}.",
        ),
        (
            "It acts on {target}, and its side effect is {side_effect}.",
            "It blocks {target} but may cause {side_effect}.",
            "Its target is {target}; its known side effect is {side_effect}.",
            "By blocking {target} it works within days, with {side_effect} as its side effect.",
        ),
    ),
    "disease": (
        (
            "{name} is a disease caused by {cause}.",
            "{name} is an infection with {cause}.",
            "The cause of {name} is {cause}.",
            "{cause} is the microbe behind {name}.",
        ),
        (
            "It brings {sign} and is treated with {drug}.",
            "Patients suffer from {sign}, and {drug} is the treatment.",
            "The treatment is {drug}. A typical sign is {sign}.",
            "Its first sign is {sign}; doctors treat it with {drug}.",
        ),
    ),
    "microbe": (
        (
            "{name} is a microbe that causes {disease}.",
            "{name} is the germ behind {disease}.",
            "The microbe {name} causes {disease}.",
            "{disease} is the work of the microbe {name}.",
        ),
        (
            "It is carried by the {carrier}.",
            "Its carrier is the {carrier}.",
            "The {carrier} spreads it.",
            "People catch it from the {carrier}.",
        ),
    ),
    "protein": (
        (
            "{name} is a protein made in the {gland}.",
            "{name} is a protein that comes from the {gland}.",
            "The {gland} makes the protein {name}.",
            "The protein {name} is made in the {gland}.",
        ),
        (
            "Several drugs act on it.",
            "It is the target of several drugs.",
            "Some drugs block it.",
            "It can be blocked by drugs.",
        ),
    ),
    "reaction": (
        (
            "{name} is a side effect of some drugs.",
            "{name} is an unwanted reaction to some drugs.",
            "Some drugs cause {name} as a side effect.",
            "{name} may follow the use of some drugs.",
        ),
        (
            "It is relieved by {remedy}.",
            "{remedy} relieves it.",
            "The usual remedy is {remedy}.",
            "Patients take {remedy} for it.",
        ),
    ),
}

# They mention an entity and a disease that have nothing to do with each other.
DISTRACTORS = {
    "drug": (
        ("Price of {name}", "A report on prices. It also lists costs of care for {place}."),
        ("Trial of {name}", "A trial that was stopped early. Some patients also had {place}."),
        ("Label of {name}", "A printed label. An old version confused doctors seeing {place}."),
        ("Makers of {name}", "A small firm. It once looked into {place} without success."),
    ),
    "disease": (
        ("History of {name}", "An essay on old records. Many of them took it for {place}."),
        ("Ward for {name}", "A hospital ward built long ago. It later took in {place} too."),
        ("Study of {name}", "A survey of villages. It counted cases of {place} as well."),
        ("Talk on {name}", "A lecture for nurses. The next one was about {place}."),
    ),
    "microbe": (
        ("Picture of {name}", "A drawing made at a microscope. It hung in a ward for {place}."),
        ("Naming of {name}", "A note on an old name. A reader mistook it for {place}."),
        ("Culture of {name}", "A method of the laboratory. It fails in samples from {place}."),
        ("Stain for {name}", "A blue dye. It was first tried during an outbreak of {place}."),
    ),
}
