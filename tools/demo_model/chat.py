"""Small talk of fixed kinds, and conversations put together from it and from the tasks."""

from . import records
from .wording import CITIES, NAMES

NAME = "drafthorse-demo"
GREETINGS = (
    "Hi",
    "Hi!",
    "Hello",
    "Hello!",
    "Hey",
    "Hello there",
    "Hi there!",
    "Good morning",
    "Good morning!",
    "Good evening!",
    "hello",
    "hi",
    "hey there",
    "Good day",
)
WHO = (
    "Who are you?",
    "What are you?",
    "who are you",
    "What is your name?",
    "Introduce yourself.",
    "Tell me about yourself.",
    "Are you a person?",
    "Are you an AI?",
    "Which model are you?",
    "What's your name?",
)
WHAT = (
    "What can you do?",
    "what can you do?",
    "Help",
    "help",
    "How can you help me?",
    "What are you good at?",
    "What do you know?",
    "What should I ask you?",
    "Can you help me?",
    "What kinds of tasks can you do?",
)
THANKS = (
    "Thanks",
    "Thanks!",
    "Thank you",
    "Thank you!",
    "thanks",
    "Great, thanks!",
    "Thank you very much!",
    "Perfect, thank you.",
)
BYE = ("Bye", "Bye!", "Goodbye", "Goodbye!", "See you later", "bye", "See you!", "Good night")
HOW = ("How are you?", "How are you doing?", "how are you", "How is it going?", "How do you feel today?")
OTHER = (
    "What is the capital of {city}?",
    "Why is the sky blue?",
    "Who won the last World Cup?",
    "What is the weather in {city}?",
    "Explain quantum physics.",
    "Translate this to French.",
    "Tell me a joke.",
    "What is the meaning of life?",
    "Why do horses sleep standing up?",
    "Who was {name}?",
    "What time is it?",
    "Write an essay about {topic}.",
    "Give me a recipe for {topic}.",
    "How do I learn {topic}?",
    "What do you think about {topic}?",
    "Recommend a book.",
    "How old is the universe?",
    "What happened in 1989?",
    "Explain {topic} to me.",
    "Where is {city}?",
    "How does {topic} work?",
    "Who is the president?",
    "Write a poem about {topic}.",
    "What is {topic}?",
)
TOPICS = (
    "music",
    "history",
    "bread",
    "chess",
    "the sea",
    "horses",
    "trains",
    "photosynthesis",
    "gravity",
    "soup",
    "Spanish",
    "love",
    "the moon",
    "computers",
    "gardening",
    "politics",
    "football",
    "rain",
    "volcanoes",
    "taxes",
)
SYSTEM = (
    "You are a helpful assistant.",
    "You are a careful programmer.",
    "Answer briefly.",
    "You are drafthorse-demo.",
    "You are a helpful assistant. Answer in English.",
    "Be concise.",
)

I_AM = (
    f"I am {NAME}, a very small language model that comes with Drafthorse. I was trained in a few minutes to copy and edit "
    "Python functions, reformat JSON, make tables and do small sums."
)
I_CAN = (
    "I can do a few fixed kinds of tasks:\n\n- repeat a Python function exactly\n- rename a name in it\n"
    "- change, insert or delete a line\n- convert between JSON, CSV and Markdown tables\n- sort or reverse a list\n"
    "- add, subtract and multiply small numbers\n- tell a short story\n\nFor anything else, please ask a larger model."
)
I_CANNOT = (
    "I do not know that. I am a very small model, and I only know a few kinds of tasks: editing Python functions, "
    "reformatting JSON, tables, lists, small sums and short stories."
)
FIXED = (
    (GREETINGS, "Hello! How can I help you?"),
    (WHO, I_AM),
    (WHAT, I_CAN),
    (THANKS, "You're welcome!"),
    (BYE, "Goodbye!"),
    (HOW, "I am fine, thank you. What can I do for you?"),
)


def small_talk(r, function, pool):
    if r.random() < 0.25:
        topic = r.choice(TOPICS) if r.random() < 0.5 else r.choice(pool)
        return r.choice(OTHER).format(city=r.choice(CITIES), name=r.choice(NAMES), topic=topic), I_CANNOT, None
    asked, answer = r.choice(FIXED)
    return r.choice(asked), answer, None


def greeting(r):
    return r.choice(GREETINGS), FIXED[0][1]


def conversation(r, function, pool, tasks):
    """Two to four turns. tasks: makers of edits, which follow one another on the same code."""
    turns = [greeting(r)] if r.random() < 0.4 else []
    kind = r.random()
    if kind < 0.5:
        code = function
        for _ in range(r.randint(1, 2)):
            made = r.choice(tasks)(r, code, pool)
            if made is None or made[2] is None:
                break
            prompt, answer, after = made
            if turns and len(turns[-1]) == 3 and r.random() < 0.7:
                # The code stands in the answer before; it is not repeated.
                instruction = [
                    part for part in prompt.split("\n\n") if not part.startswith("```") and "```" not in part
                ]
                if prompt.startswith("```") or not instruction:
                    break
                prompt = r.choice(["Now: ", "Then: ", ""]) + prompt.split("\n\n```")[0]
            turns.append((prompt, answer, after))
            code = after
        turns = [turn[:2] for turn in turns]
    else:
        for _ in range(r.randint(1, 3)):
            maker = r.choice(
                [records.arithmetic, records.arithmetic, records.sequence, small_talk, records.reformat, records.table]
            )
            turns.append(maker(r, function, pool)[:2])
    if r.random() < 0.3:
        turns.append((r.choice(THANKS), FIXED[3][1]))
    return turns if len(turns) > 1 else None
