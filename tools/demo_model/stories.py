"""Short stories from sentences with slots: text that does not repeat itself, and whose next words are open in some
places and settled in others. Every sentence is ours."""

from .wording import CITIES, NAMES

JOBS = (
    "baker",
    "sailor",
    "clockmaker",
    "gardener",
    "teacher",
    "painter",
    "miller",
    "librarian",
    "carpenter",
    "musician",
    "postman",
    "shepherd",
    "weaver",
    "fisherman",
    "blacksmith",
    "tailor",
    "juggler",
    "cook",
    "beekeeper",
    "ferryman",
)
THINGS = (
    "silver key",
    "red kite",
    "worn map",
    "broken clock",
    "glass bottle",
    "wooden horse",
    "blue lantern",
    "brass bell",
    "torn letter",
    "green umbrella",
    "golden ring",
    "paper boat",
    "music box",
    "black feather",
    "stone coin",
    "tin drum",
)
PLACES = (
    "forest",
    "harbour",
    "market",
    "mountain",
    "river",
    "castle",
    "library",
    "lighthouse",
    "garden",
    "bridge",
    "mill",
    "station",
    "island",
    "tower",
    "valley",
    "orchard",
)
ANIMALS = ("fox", "crow", "cat", "donkey", "stork", "goat", "dog", "horse", "hedgehog", "goose", "rabbit", "mouse")
FOODS = ("bread", "soup", "apples", "cheese", "honey cake", "pears", "chestnuts", "pancakes")
WEATHERS = (
    "It rained",
    "Snow fell",
    "The wind blew",
    "The sun shone",
    "Fog lay on the fields",
    "A storm came up",
    "It was cold",
    "The stars were bright",
)

OPENINGS = (
    "{name} was a {job} who lived near the {place} of {city}.",
    "Once there was a {job} in {city} whose name was {name}.",
    "In a small house by the {place}, not far from {city}, lived a {job} called {name}.",
    "Everybody in {city} knew {name} the {job}.",
    "Long ago a young {job} named {name} came to {city}.",
)
FINDS = (
    "One morning {name} found a {thing} under the {place2} wall.",
    "On a Sunday {name} saw a {thing} lying on the road.",
    "One evening a stranger left a {thing} at the door.",
    "While cleaning the attic, {name} came upon a {thing}.",
    "In spring the river brought a {thing} to the bank.",
    "An aunt had left {name} nothing but a {thing}.",
)
WONDERS = (
    "Nobody could say whom it belonged to.",
    "It was warm to the touch, as if it were alive.",
    'On its back somebody had scratched the word "{place2}".',
    "It hummed quietly whenever the moon was up.",
    "It seemed far too fine to be lost by accident.",
    "{name2} the {job2} offered a high price for it at once.",
)
PLANS = (
    "So {name} packed some {food} and set out for the {place2}.",
    '"I will take it back," said {name}, and left the same day.',
    "{name} decided to ask {name2} the {job2}, who knew about such things.",
    "After a night without sleep, {name} locked the house and walked to the {place2}.",
)
WALKS = (
    "{weather} all day, but the road was good.",
    "{weather}, and nobody else was on the road.",
    "{weather} when the {place2} came into sight.",
    "On the second day {weather_low}, and the path became hard to see.",
)
MEETINGS = (
    "At the gate sat a {animal} that would not move.",
    "Halfway there, a {animal} began to follow.",
    "Behind a hedge a {animal} was caught in a net.",
    "Near the well a thin {animal} looked at the {food}.",
    "A {animal} with one white ear stood in the way.",
)
DEEDS = (
    "{name} shared the {food} with it, and from then on the two went together.",
    "{name} cut it free and thought no more about it.",
    '"Come along, then," said {name}, and it did.',
    "{name} tried to go around, but the {animal} only shook its head and pointed to the left.",
)
TROUBLES = (
    "The {place2} was locked, and the keeper was away.",
    "Then the bridge broke, and the way back was gone.",
    "At the {place2} two men claimed that the {thing} was theirs.",
    "In the dark {name} lost the {thing} in the tall grass.",
    "The keeper of the {place2} laughed and would not listen.",
)
TURNS = (
    "But the {animal} knew another way in.",
    "Then {name2} the {job2} came by with a ladder and a lamp.",
    "It was the {animal} that found the answer: it had seen the owner before.",
    "{name} thought of what an old {job2} had once said, and turned the {thing} upside down.",
)
ENDS = (
    "Inside sat an old {job2}, who wept for joy at the sight of the {thing}.",
    "The {thing} opened with a click, and in it lay a picture of {city}.",
    "So the {thing} came back to where it had been made a hundred years before.",
    "The owner gave {name} a purse of coins and the {animal} a bowl of milk.",
)
CLOSINGS = (
    "{name} went home to {city} and told the story to everyone who asked.",
    "Since that day the {animal} has lived in {city} too.",
    "And if you visit {city}, you can still see the {thing} in a window by the {place}.",
    "{name} never became rich, but was never lonely again.",
    "That was the last time anybody in {city} laughed at a {job}.",
)
STAGES = (OPENINGS, FINDS, WONDERS, PLANS, WALKS, MEETINGS, DEEDS, TROUBLES, TURNS, ENDS, CLOSINGS)
REQUESTS = (
    "Write a short story about {name} the {job} and a {thing}.",
    "Tell me a story about a {job} called {name}, a {thing} and a {animal}.",
    "Tell a story about {name}, a {job} from {city}, who finds a {thing}.",
    "Write a story with a {job} named {name} and a {animal}.",
    "Tell me a short story.",
    "Write a short story about a {job}.",
    "Tell me a story about a {thing}.",
)


def story(r, function, pool):
    name, name2 = r.sample(NAMES, 2)
    job, job2 = r.sample(JOBS, 2)
    place, place2 = r.sample(PLACES, 2)
    weather = r.choice(WEATHERS)
    slots = dict(
        name=name,
        name2=name2,
        job=job,
        job2=job2,
        place=place,
        place2=place2,
        city=r.choice(CITIES),
        thing=r.choice(THINGS),
        animal=r.choice(ANIMALS),
        food=r.choice(FOODS),
        weather=weather,
        weather_low=weather[0].lower() + weather[1:],
    )
    sentences = [r.choice(stage).format(**slots) for stage in STAGES]
    cuts = sorted(r.sample(range(2, len(sentences) - 1), 2))
    parts = [sentences[: cuts[0]], sentences[cuts[0] : cuts[1]], sentences[cuts[1] :]]
    return r.choice(REQUESTS).format(**slots), "\n\n".join(" ".join(part) for part in parts), None
