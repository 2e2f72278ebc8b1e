"""Words, values and wrappings that the task makers share."""

WORDS = (
    "alpha beta gamma delta item name price count total user city color size date owner status level score region "
    "weight height width title author year code type value group label amount rate email phone"
).split()
NAMES = (
    "Ada Bob Carla Dan Eve Finn Gus Hana Ivo Jill Kurt Lena Max Nina Omar Pia Quinn Rosa Sam Tara Uma Vic Wes "
    "Yara Zoe"
).split()
CITIES = "Paris London Berlin Tokyo Madrid Rome Oslo Vienna Lima Cairo Delhi Seoul Boston Dublin Prague".split()


def word(r, pool):
    return r.choice(WORDS) if r.random() < 0.5 else r.choice(pool)


def fence(text, language="python"):
    return f"```{language}\n{text}\n```"


def ask(r, instruction, content):
    """The instruction, more often before the content than after it."""
    return f"{instruction}\n\n{content}" if r.random() < 0.7 else f"{content}\n\n{instruction}"


def indent_of(line):
    return line[: len(line) - len(line.lstrip())]
