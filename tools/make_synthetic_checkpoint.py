#!/usr/bin/env python3
"""Writes a checkpoint of the Qwen3.5 family with random weights, of any size: the shapes, names and formats of real
files, to measure speed where the weights do not matter.

    python3 tools/make_synthetic_checkpoint.py --size 0.8b OUT            # a folder as MLX packs are
    python3 tools/make_synthetic_checkpoint.py --size 35b-a3b --layers 12 --gguf OUT.gguf

Sizes: 0.8b, 2b, 4b, 9b, 27b, 35b-a3b, and tiny and tiny-moe for tests. --layers N keeps the first N blocks.
MLX: affine 4 bits in groups of 64 (--bits, --group-size), router and the shared expert's gate in 8 bits, the head's fc
in bf16. GGUF: --type q4_k, q4_1 or q4_0 for all matrices, routers in f32. The drafting head is there unless --no-mtp.
Scales are such that activations keep their order of magnitude from block to block and that routing is near-uniform.
The tokenizer has one token a byte and the chat markers; the other ids of the vocabulary stand for nothing.
The same arguments and --seed write the same bytes. Needs nothing beyond Python, and the memory of a few chunks.
"""
import argparse
import itertools
import json
import math
import struct
from dataclasses import dataclass, replace
from pathlib import Path

import synthetic_weights as weights
from shards import Stored, byte_count, write_shards


@dataclass(frozen=True)
class Size:
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    value_heads: int
    intermediate: int = 0
    tied: bool = False
    experts: int = 0
    top_k: int = 0
    expert_size: int = 0
    head_dim: int = 256
    key_heads: int = 16
    delta_dim: int = 128  # of keys and values
    vocab: int = 248320
    context: int = 262144
    mtp: bool = True

    @property
    def rotary(self):
        return self.head_dim // 4

    @property
    def key_size(self):
        return self.key_heads * self.delta_dim

    @property
    def value_size(self):
        return self.value_heads * self.delta_dim

    @property
    def channels(self):
        return 2 * self.key_size + self.value_size

    @property
    def sections(self):
        """Of the rotary pairs: time, height, width."""
        pairs = self.rotary // 2
        return [pairs - 2 * (pairs // 3), pairs // 3, pairs // 3]

    def is_linear(self, layer):
        return (layer + 1) % INTERVAL != 0


INTERVAL, KERNEL, EPS, THETA = 4, 4, 1e-6, 10000000.0
TINY = dict(hidden=256, layers=4, heads=4, kv_heads=2, head_dim=64, key_heads=2, value_heads=4, delta_dim=64, vocab=512,
            context=4096)
EXPERTS = dict(experts=256, top_k=8, expert_size=512)
SIZES = {
    "0.8b": Size(1024, 24, 8, 2, 16, 3584, tied=True),
    "2b": Size(2048, 24, 8, 2, 16, 6144, tied=True),
    "4b": Size(2560, 32, 16, 4, 32, 9216, tied=True),
    "9b": Size(4096, 32, 16, 4, 32, 12288),
    "27b": Size(5120, 64, 24, 4, 48, 17408),
    "35b-a3b": Size(2048, 40, 16, 2, 32, **EXPERTS),
    "tiny": Size(**TINY, intermediate=512, tied=True),
    "tiny-moe": Size(**TINY, experts=8, top_k=2, expert_size=256),
}


# Vocabularies number their tokens by frequency; nearly all tokens that a real model emits are among the first.
COMMON_TOKENS, RARE = 32768, 0.75


@dataclass(frozen=True)
class Tensor:
    """key: of the names below, after the block's index where it has one (-1: the head's block). kind: how it is kept.

    matrix, fine (a matrix in more bits), dense (one in 16 bits): normal values of the standard deviation `std`;
    values: each from the table `table`. Rows of a matrix from `rare_from` on have RARE of the deviation.
    """
    key: str
    shape: tuple
    kind: str = "values"
    std: float = 0.0
    table: tuple = ()
    block: int | None = None
    rare_from: int | None = None

    @property
    def count(self):
        return math.prod(self.shape)

    def bands(self):
        """(seed's suffix, values, standard deviation) of the parts one after another."""
        if self.rare_from is None or self.rare_from >= self.shape[0]:
            return [("", self.count, self.std)]
        common = self.rare_from * self.shape[-1]
        return [("", common, self.std), ("/rare", self.count - common, RARE * self.std)]


def chained(tensor, make):
    return itertools.chain.from_iterable(make(*band) for band in tensor.bands())


def norm(key, size, block=None):
    return Tensor(key, (size,), table=tuple(weights.normal_values(0.05, 1.0)), block=block)


def matrix(key, shape, gain, block, kind="matrix"):
    """gain: of the outputs' standard deviation over the inputs'."""
    return Tensor(key, shape, kind, gain / math.sqrt(shape[-1]), block=block)


def attention(size, block):
    q, kv = size.heads * size.head_dim, size.kv_heads * size.head_dim
    yield matrix("q", (2 * q, size.hidden), 1, block)
    yield matrix("k", (kv, size.hidden), 1, block)
    yield matrix("v", (kv, size.hidden), 1, block)
    yield matrix("o", (size.hidden, q), 1, block)
    yield norm("q_norm", size.head_dim, block)
    yield norm("k_norm", size.head_dim, block)


def delta_net(size, block):
    yield matrix("qkv", (size.channels, size.hidden), 1, block)
    yield matrix("z", (size.value_size, size.hidden), 1, block)
    yield matrix("b", (size.value_heads, size.hidden), 1, block)
    yield matrix("a", (size.value_heads, size.hidden), 1, block)
    yield Tensor("conv", (size.channels, KERNEL), table=tuple(weights.normal_values(0.5)), block=block)
    # A from 1 to 16 and time steps from 0.001 to 0.1, as such models start out.
    decays = weights.even_values(0, math.log(16))
    yield Tensor("decay", (size.value_heads,), table=tuple(decays), block=block)
    steps = weights.even_values(math.log(0.001), math.log(0.1), lambda x: math.log(math.expm1(math.exp(x))))
    yield Tensor("dt_bias", (size.value_heads,), table=tuple(steps), block=block)
    yield norm("delta_norm", size.delta_dim, block)
    yield matrix("delta_out", (size.hidden, size.value_size), 0.5, block)


def feed_forward(size, block):
    if size.experts == 0:
        yield from mlp("", size.hidden, size.intermediate, block)
        return
    e, i = size.experts, size.expert_size
    yield matrix("router", (e, size.hidden), 1, block, "fine")
    yield matrix("experts_gate", (e, i, size.hidden), 1, block)
    yield matrix("experts_up", (e, i, size.hidden), 1, block)
    yield matrix("experts_down", (e, size.hidden, i), 1, block)
    yield from mlp("shared_", size.hidden, i, block)
    yield matrix("shared_router", (1, size.hidden), 1, block, "fine")


def mlp(prefix, hidden, intermediate, block):
    yield matrix(prefix + "gate", (intermediate, hidden), 1, block)
    yield matrix(prefix + "up", (intermediate, hidden), 1, block)
    yield matrix(prefix + "down", (hidden, intermediate), 1, block)


def block_tensors(size, block, linear):
    yield norm("before_mixer", size.hidden, block)
    yield from (delta_net if linear else attention)(size, block)
    yield norm("before_ffn", size.hidden, block)
    yield from feed_forward(size, block)


HEAD = -1


def all_tensors(size):
    # Blocks outweigh the embedding in the residual stream, or a tied model would repeat its last token.
    yield Tensor("embedding", (size.vocab, size.hidden), "matrix", 1 / math.sqrt(size.hidden),
                 rare_from=COMMON_TOKENS)
    for block in range(size.layers):
        yield from block_tensors(size, block, size.is_linear(block))
    yield norm("final_norm", size.hidden)
    if not size.tied:
        yield Tensor("output", (size.vocab, size.hidden), "matrix", 1 / math.sqrt(size.hidden),
                     rare_from=COMMON_TOKENS)
    if size.mtp:
        yield norm("mtp_embedding_norm", size.hidden, HEAD)
        yield norm("mtp_hidden_norm", size.hidden, HEAD)
        yield matrix("mtp_fc", (size.hidden, 2 * size.hidden), 1, HEAD, "dense")
        yield from block_tensors(size, HEAD, False)
        yield norm("mtp_norm", size.hidden, HEAD)


# ---- The tokenizer ----

MARKERS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"]
FIRST_MARKER = 257  # after the bytes and one merge, which readers that want some are given
SPACE_T = ["\u0120", "t"]
CHAT_TEMPLATE = ("{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
                 "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")


def byte_alphabet():
    """The character that stands for each byte in byte-level vocabularies."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return [chr(byte if byte in shown else 0x100 + hidden.index(byte)) for byte in range(256)]


def known_tokens():
    return byte_alphabet() + ["".join(SPACE_T)] + MARKERS


def tokenizer_json():
    words = known_tokens()[:FIRST_MARKER]
    added = [{"id": FIRST_MARKER + i, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": text.startswith("<|")} for i, text in enumerate(MARKERS)]
    split = {"type": "Split", "pattern": {"Regex": SPLIT}, "behavior": "Isolated", "invert": False}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": {"type": "NFC"},
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
            "post_processor": byte_level, "decoder": byte_level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                      "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": {word: i for i, word in enumerate(words)}, "merges": [SPACE_T]}}


def marker(text):
    return FIRST_MARKER + MARKERS.index(text)


# ---- MLX ----

MLX_NAMES = {
    "embedding": "language_model.model.embed_tokens", "final_norm": "language_model.model.norm",
    "output": "language_model.lm_head",
    "before_mixer": "input_layernorm", "before_ffn": "post_attention_layernorm",
    "q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj", "o": "self_attn.o_proj",
    "q_norm": "self_attn.q_norm", "k_norm": "self_attn.k_norm",
    "qkv": "linear_attn.in_proj_qkv", "z": "linear_attn.in_proj_z", "b": "linear_attn.in_proj_b",
    "a": "linear_attn.in_proj_a", "conv": "linear_attn.conv1d", "decay": "linear_attn.A_log",
    "dt_bias": "linear_attn.dt_bias", "delta_norm": "linear_attn.norm", "delta_out": "linear_attn.out_proj",
    "gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj",
    "router": "mlp.gate", "experts_gate": "mlp.switch_mlp.gate_proj", "experts_up": "mlp.switch_mlp.up_proj",
    "experts_down": "mlp.switch_mlp.down_proj", "shared_gate": "mlp.shared_expert.gate_proj",
    "shared_up": "mlp.shared_expert.up_proj", "shared_down": "mlp.shared_expert.down_proj",
    "shared_router": "mlp.shared_expert_gate",
    "mtp_embedding_norm": "pre_fc_norm_embedding", "mtp_hidden_norm": "pre_fc_norm_hidden", "mtp_fc": "fc",
    "mtp_norm": "norm",
}
FINE_BITS, FINE_GROUP = 8, 64


def mlx_module(tensor):
    if tensor.block is None:
        return MLX_NAMES[tensor.key]
    if tensor.block != HEAD:
        return f"language_model.model.layers.{tensor.block}.{MLX_NAMES[tensor.key]}"
    inner = "" if tensor.key.startswith("mtp_") else "layers.0."
    return f"language_model.mtp.{inner}{MLX_NAMES[tensor.key]}"


def mlx_stored(tensor, options):
    """The file's tensors of one of ours."""
    module, seed = mlx_module(tensor), f"{options.seed}/{mlx_module(tensor)}"
    if tensor.kind in ("values", "dense"):
        table = tensor.table or weights.normal_values(tensor.std)
        name = module if tensor.key in ("decay", "dt_bias") else module + ".weight"
        encoding = "f32" if tensor.key == "decay" else "bf16"
        width = 4 if encoding == "f32" else 2
        shape = (*tensor.shape, 1) if tensor.key == "conv" else tensor.shape
        yield Stored(name, encoding.upper(), shape, tensor.count * width,
                     lambda: weights.plain(seed, tensor.count, table, encoding))
        return
    bits, group = (FINE_BITS, FINE_GROUP) if tensor.kind == "fine" else (options.bits, options.group_size)
    outer, inputs = tensor.shape[:-1], tensor.shape[-1]
    yield Stored(module + ".weight", "U32", (*outer, inputs * bits // 32), tensor.count * bits // 8,
                 lambda: chained(tensor, lambda more, n, _: weights.affine_codes(seed + more, n, bits)))
    for what in ("scales", "biases"):
        yield Stored(f"{module}.{what}", "BF16", (*outer, inputs // group), tensor.count // group * 2,
                     lambda what=what: chained(tensor, lambda more, n, std: weights.affine_groups(
                         seed + more, n // group, bits, std, what)))


def mlx_config(size, options):
    quantisation = {"group_size": options.group_size, "bits": options.bits, "mode": "affine"}
    for tensor in all_tensors(size):
        if tensor.kind == "fine" and options.bits != FINE_BITS:
            quantisation[mlx_module(tensor)] = {"group_size": FINE_GROUP, "bits": FINE_BITS}
    suffix = "_moe" if size.experts else ""
    text = {
        "model_type": f"qwen3_5{suffix}_text", "hidden_size": size.hidden, "num_hidden_layers": size.layers,
        "vocab_size": size.vocab, "num_attention_heads": size.heads, "num_key_value_heads": size.kv_heads,
        "head_dim": size.head_dim, "linear_num_key_heads": size.key_heads, "linear_num_value_heads": size.value_heads,
        "linear_key_head_dim": size.delta_dim, "linear_value_head_dim": size.delta_dim,
        "linear_conv_kernel_dim": KERNEL, "full_attention_interval": INTERVAL,
        "layer_types": ["linear_attention" if size.is_linear(i) else "full_attention" for i in range(size.layers)],
        "rms_norm_eps": EPS, "hidden_act": "silu", "attention_bias": False, "attn_output_gate": True,
        "mamba_ssm_dtype": "float32", "max_position_embeddings": size.context, "dtype": "bfloat16",
        "rope_parameters": {"rope_type": "default", "rope_theta": THETA, "partial_rotary_factor": 0.25,
                            "mrope_interleaved": True, "mrope_section": size.sections},
        "tie_word_embeddings": size.tied, "mtp_num_hidden_layers": int(size.mtp),
        "mtp_use_dedicated_embeddings": False, "bos_token_id": None, "eos_token_id": marker("<|endoftext|>"),
    }
    if size.experts:
        text |= {"num_experts": size.experts, "num_experts_per_tok": size.top_k,
                 "moe_intermediate_size": size.expert_size, "shared_expert_intermediate_size": size.expert_size,
                 "norm_topk_prob": True}
    else:
        text["intermediate_size"] = size.intermediate
    return {"architectures": [f"Qwen3_5{'Moe' if size.experts else ''}ForConditionalGeneration"],
            "model_type": f"qwen3_5{suffix}", "text_config": text, "tie_word_embeddings": size.tied,
            "eos_token_id": marker("<|im_end|>"), "quantization": quantisation, "quantization_config": quantisation}


def write_mlx(folder, size, options):
    folder.mkdir(parents=True, exist_ok=True)
    write_shards(folder, [list(mlx_stored(tensor, options)) for tensor in all_tensors(size)], options.shard_bytes)
    files = {"config.json": mlx_config(size, options),
             "tokenizer.json": tokenizer_json(),
             "tokenizer_config.json": {"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|im_end|>",
                                       "bos_token": None, "chat_template": CHAT_TEMPLATE},
             "generation_config.json": {"eos_token_id": [marker("<|im_end|>"), marker("<|endoftext|>")]}}
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=1) + "\n")


# ---- GGUF ----

GGUF_NAMES = {
    "embedding": "token_embd.weight", "final_norm": "output_norm.weight", "output": "output.weight",
    "before_mixer": "attn_norm.weight", "before_ffn": "post_attention_norm.weight",
    "q": "attn_q.weight", "k": "attn_k.weight", "v": "attn_v.weight", "o": "attn_output.weight",
    "q_norm": "attn_q_norm.weight", "k_norm": "attn_k_norm.weight",
    "qkv": "attn_qkv.weight", "z": "attn_gate.weight", "b": "ssm_beta.weight", "a": "ssm_alpha.weight",
    "conv": "ssm_conv1d.weight", "decay": "ssm_a", "dt_bias": "ssm_dt.bias", "delta_norm": "ssm_norm.weight",
    "delta_out": "ssm_out.weight", "gate": "ffn_gate.weight", "up": "ffn_up.weight", "down": "ffn_down.weight",
    "router": "ffn_gate_inp.weight", "experts_gate": "ffn_gate_exps.weight", "experts_up": "ffn_up_exps.weight",
    "experts_down": "ffn_down_exps.weight", "shared_gate": "ffn_gate_shexp.weight",
    "shared_up": "ffn_up_shexp.weight", "shared_down": "ffn_down_shexp.weight",
    "shared_router": "ffn_gate_inp_shexp.weight",
    "mtp_embedding_norm": "nextn.enorm.weight", "mtp_hidden_norm": "nextn.hnorm.weight",
    "mtp_fc": "nextn.eh_proj.weight", "mtp_norm": "nextn.shared_head_norm.weight",
}
ALIGNMENT = 32
F32_TYPE = 0
NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5  # token types


def gguf_stored(tensor, size, options):
    name = GGUF_NAMES[tensor.key]
    if tensor.block is not None:
        name = f"blk.{size.layers if tensor.block == HEAD else tensor.block}.{name}"
    seed = f"{options.seed}/{name}"
    shape = (tensor.shape[-1],) if tensor.key == "shared_router" else tensor.shape
    if tensor.kind in ("matrix", "dense"):
        type_id, block, width, _ = weights.BLOCKS[options.type]
        return Stored(name, type_id, shape, tensor.count // block * width,
                      lambda: chained(tensor, lambda more, n, std: weights.blocks(seed + more, n, options.type, std)))
    table = tensor.table or weights.normal_values(tensor.std)
    if tensor.key == "decay":
        table = [-math.exp(value) for value in table]
    return Stored(name, F32_TYPE, shape, tensor.count * 4, lambda: weights.plain(seed, tensor.count, table, "f32"))


def gguf_text(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_value(value):
    """Type and bytes: int as u32, float as f32, bool, str, and lists of int (as i32) and str."""
    if isinstance(value, bool):
        return struct.pack("<IB", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + gguf_text(value)
    if isinstance(value[0], int):
        return struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)
    return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(gguf_text, value))


def gguf_metadata(size, options):
    architecture = "qwen35moe" if size.experts else "qwen35"
    keys = {
        "context_length": size.context, "embedding_length": size.hidden, "block_count": size.layers + size.mtp,
        "attention.head_count": size.heads, "attention.head_count_kv": size.kv_heads,
        "attention.key_length": size.head_dim, "attention.value_length": size.head_dim,
        "attention.layer_norm_rms_epsilon": EPS, "rope.dimension_count": size.rotary,
        "rope.dimension_sections": [*size.sections, 0], "rope.freq_base": THETA, "full_attention_interval": INTERVAL,
        "ssm.conv_kernel": KERNEL, "ssm.state_size": size.delta_dim, "ssm.group_count": size.key_heads,
        "ssm.time_step_rank": size.value_heads, "ssm.inner_size": size.value_size, "vocab_size": size.vocab,
    }
    if size.mtp:
        keys["nextn_predict_layers"] = 1
    if size.experts:
        keys |= {"expert_count": size.experts, "expert_used_count": size.top_k,
                 "expert_feed_forward_length": size.expert_size,
                 "expert_shared_feed_forward_length": size.expert_size}
    else:
        keys["feed_forward_length"] = size.intermediate
    tokens = known_tokens()
    types = [NORMAL] * FIRST_MARKER + [CONTROL if text.startswith("<|") else USER_DEFINED for text in MARKERS]
    types += [UNUSED] * (size.vocab - len(tokens))
    tokens += [f"[PAD{i}]" for i in range(len(tokens), size.vocab)]
    return {
        "general.architecture": architecture, "general.name": f"synthetic Qwen3.5 {options.size}",
        "general.alignment": ALIGNMENT, **{f"{architecture}.{key}": value for key, value in keys.items()},
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "qwen35", "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types, "tokenizer.ggml.merges": [" ".join(SPACE_T)],
        "tokenizer.ggml.eos_token_id": marker("<|im_end|>"), "tokenizer.ggml.padding_token_id": marker("<|endoftext|>"),
        "tokenizer.ggml.add_bos_token": False, "tokenizer.chat_template": CHAT_TEMPLATE,
    }


def write_gguf(path, size, options):
    metadata = gguf_metadata(size, options)
    stored = [gguf_stored(tensor, size, options) for tensor in all_tensors(size)]
    infos, offset = [], 0
    for tensor in stored:
        infos.append(gguf_text(tensor.name) + struct.pack(f"<I{len(tensor.shape)}QIQ", len(tensor.shape),
                                                          *reversed(tensor.shape), tensor.type, offset))
        offset += tensor.bytes + -tensor.bytes % ALIGNMENT
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, len(stored), len(metadata)))
        file.write(b"".join(gguf_text(key) + gguf_value(value) for key, value in metadata.items()))
        file.write(b"".join(infos))
        file.write(bytes(-file.tell() % ALIGNMENT))
        for tensor in stored:
            for chunk in tensor.chunks():
                file.write(chunk)
            file.write(bytes(-file.tell() % ALIGNMENT))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder, or with --gguf a file")
    parser.add_argument("--size", required=True, choices=SIZES)
    parser.add_argument("--layers", type=int, help="blocks to keep")
    parser.add_argument("--vocab", type=int, help="in place of the real one")
    parser.add_argument("--no-mtp", action="store_true", help="without the drafting head")
    parser.add_argument("--gguf", action="store_true")
    parser.add_argument("--type", choices=weights.BLOCKS, default="q4_k", help="GGUF: of the matrices")
    parser.add_argument("--bits", type=int, choices=(2, 3, 4, 5, 6, 8), default=4, help="MLX: of the matrices")
    parser.add_argument("--group-size", type=int, choices=(32, 64, 128), default=64, help="MLX: inputs a scale")
    parser.add_argument("--shard-bytes", type=byte_count, default="5G", help="MLX: most bytes of a file")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    size = replace(SIZES[options.size], mtp=not options.no_mtp)
    if options.layers is not None:
        if not 1 <= options.layers:
            parser.error("--layers must be at least 1")
        size = replace(size, layers=options.layers)
    if options.vocab is not None:
        if options.vocab < len(known_tokens()):
            parser.error(f"--vocab must be at least {len(known_tokens())}")
        size = replace(size, vocab=options.vocab)
    (write_gguf if options.gguf else write_mlx)(options.out, size, options)


if __name__ == "__main__":
    main()
