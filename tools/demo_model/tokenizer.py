"""The model's own byte-level BPE vocabulary, split as Qwen3.5 splits, and its chat markers."""

END_OF_TEXT, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
END_OF_TEXT_ID, START_ID, END_ID = 0, 1, 2
SPECIAL = [END_OF_TEXT, START, END, "<think>", "</think>", "<tool_call>", "</tool_call>"]
VOCABULARY = 8192
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def turn(role, content):
    return f"{START}{role}\n{content}{END}\n"


def prompt_of(turns, system=None):
    """The text that the chat template makes of (user, assistant) pairs and a last user's text."""
    text = turn("system", system) if system else ""
    for user, assistant in turns[:-1]:
        text += turn("user", user) + turn("assistant", assistant)
    return text + turn("user", turns[-1]) + f"{START}assistant\n"


def train(texts, vocabulary=VOCABULARY):
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=vocabulary, special_tokens=SPECIAL, show_progress=False, initial_alphabet=alphabet
        ),
    )
    return tokenizer


def config():
    """tokenizer_config.json."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": None,
        "eos_token": END,
        "pad_token": END_OF_TEXT,
        "model_max_length": 8192,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
