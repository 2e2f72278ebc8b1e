#!/usr/bin/env python3
"""Writes small sound inputs for the fuzz targets, and dictionaries of the words that their grammars know.

    python3 tools/make_fuzz_seeds.py build-asan/fuzz/seeds

Makes FOLDER/TARGET/NAME and FOLDER/TARGET.dict; scripts/fuzz calls it. Chat templates are those of tests/data/templates.
"""

import json
import pathlib
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# GGML type -> (elements, bytes) of a block.
BLOCKS = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 10: (256, 84),
          11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 20: (32, 18), 23: (256, 136), 24: (1, 1),
          30: (1, 2), 39: (32, 17)}


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(version, entries, tensors):
    """entries: (key, type and value bytes); tensors: (name, type, sizes from the contiguous one outwards)."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(entries))
    head += b"".join(text(key) + value for key, value in entries)
    data = b""
    for name, kind, sizes in tensors:
        data += b"\0" * (-len(data) % 32)
        elements, size = BLOCKS[kind]
        count = 1
        for n in sizes:
            count *= n
        head += text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, len(data))
        data += bytes(i * 37 % 256 for i in range(count // elements * size))
    return head + b"\0" * (-len(head) % 32) + data


def every_value():
    pack = struct.pack
    return [("u8", pack("<IB", 0, 1)), ("i8", pack("<Ib", 1, -1)), ("u16", pack("<IH", 2, 1)), ("i16", pack("<Ih", 3, -1)),
            ("u32", pack("<II", 4, 1)), ("i32", pack("<Ii", 5, -1)), ("f32", pack("<If", 6, 1)), ("flag", pack("<IB", 7, 1)),
            ("text", pack("<I", 8) + text("x")), ("u64", pack("<IQ", 10, 1)), ("i64", pack("<Iq", 11, -1)),
            ("f64", pack("<Id", 12, 1)), ("ints", pack("<IIQ2i", 9, 5, 2, 1, 2)), ("floats", pack("<IIQ2f", 9, 6, 2, 1, 2)),
            ("flags", pack("<IIQ2B", 9, 7, 2, 0, 1)), ("texts", pack("<IIQ", 9, 8, 2) + text("a") + text("bc")),
            ("general.alignment", pack("<II", 4, 32))]


def safetensors(tensors, config):
    """tensors: (name, dtype, shape, bytes). The fuzz target takes the config from the end; byte 0 is its length."""
    header, data = {}, b""
    for name, dtype, shape, size in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + size]}
        data += bytes(i * 29 % 256 for i in range(size))
    head, tail = json.dumps(header).encode(), json.dumps(config).encode() if config else b""
    return bytes([len(tail)]) + struct.pack("<Q", len(head)) + head + data + tail


TEMPLATES = [
    "{{ bos_token }}{% for m in messages %}{{ '<|' + m.role + '|>' + (m.content or '') | trim }}{% endfor %}",
    "{%- set ns = namespace(i=0, found=false) %}{% for x in xs if x > 1 %}{% set ns.i = ns.i + x %}{{ loop.index0 }}"
    "{{ ',' if not loop.last }}{% else %}-{% endfor %}{{ ns.i }}",
    "{% macro m(a, b=2, c=none) %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{{ caller() if caller }}{% endmacro %}"
    "{{ m(1, *[2, 3], **{'k': 4}) }}{% call(v) m(1) %}{{ v }}{% endcall %}",
    "{% for t in tools recursive %}{{ t | tojson(indent=2) }}{{ loop.depth }}{{ loop(t.c) if t.c }}{% endfor %}",
    "{{ xs[::-1] }}{{ s[1:-1] }}{{ d.items() | list }}{{ d | dictsort }}{{ xs | sort(reverse=true) | join(', ') }}",
    "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | list }}{{ xs | batch(2, 0) | list }}",
    "{{ '%05.2f|%-4s|%x|%c' % (f, s, n, 65) }}{{ '{:>4}|{:,}|{!r}|{0[0]}'.format(n, n, s) }}{{ n ** 3 // -2 % 5 }}",
    "{% if a is defined and not (n is odd or s in 'text') %}x{% elif xs | length >= 3 %}y{% else %}z{% endif %}",
    "{% set x %}block{% endset %}{{ x | upper }}{% filter replace('a', 'b') | indent(2) %}aa\nb{% endfilter %}",
    "{% with a = 1, b = a %}{{ a ~ b }}{% endwith %}{% raw %}{{ x }}{% endraw %}{# c #}{% generation %}g{% endgeneration %}",
    "{% for a, b in d | items %}{% if a == 'b' %}{% continue %}{% endif %}{% break %}{% endfor %}{{ raise_exception('no') }}",
    "{{ strftime_now('%Y-%m-%d') }}{{ cycler('a', 'b').next() }}{{ joiner(',')() }}{{ dict(a=1) }}{{ range(9, 0, -2) }}",
    "{{ s.split('e') }}{{ s.replace('t', 'u', 1).title() }}{{ s.startswith(('t', 'x')) }}{{ '\u00e9'.encode() }}",
    "{{ 1.5e300 * 1e10 }}{{ 170141183460469231731687303715884105727 + 1 }}{{ -7 // 2 }}{{ 'a' < 'b' < 'c' }}",
]
TEMPLATE_WORDS = """{{ }} {% %} {%- -%} {{- -}} {# #} for endfor in if elif else endif set endset macro endmacro call endcall
filter endfilter with endwith raw endraw break continue recursive not and or is none true false loop loop.index namespace(
caller() varargs kwargs |tojson |sort |join |map |select |groupby( |batch( |slice( |indent( |format( |replace( |unique
|round( |int |float |string |list |length |default( |dictsort |items |safe |escape |urlencode |truncate( |filesizeformat
|xmlattr |sum |min |max |first |last |reverse |title |center( .split( .format( .items() .append( .join( .strip( .encode(
messages tools range( ** // ~ == != <= >= [::-1] {:>9} %s %d""".split()

REQUESTS = [
    "GET /v1/models/tiny?x=1 HTTP/1.1\r\nHost: 127.0.0.1:80\r\nAuthorization: Bearer x\r\n\r\n",
    "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost:3000\r\n"
    "Access-Control-Request-Method: POST\r\n\r\n",
    "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    "1c\r\n{\"prompt\":\"x\",\"stream\":true}\r\n0\r\n\r\n",
    "HEAD / HTTP/1.0\r\n\r\n",
]
REQUEST_WORDS = """POST GET HEAD OPTIONS HTTP/1.1 HTTP/1.0 Host: Content-Length: Transfer-Encoding: chunked Origin: Content-Type:
application/json Authorization: Bearer Expect: 100-continue Connection: close keep-alive /v1/chat/completions /v1/completions
/v1/models /health /metrics localhost""".split() + ["\r\n", "\r\n\r\n"]

CHATS = [
    {"model": "tiny", "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]},
                                   {"role": "assistant", "content": None, "tool_calls": [
                                       {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
                                   {"role": "tool", "tool_call_id": "c", "content": "1"}],
     "n": 2, "stop": ["a"], "logit_bias": {"3": 1}, "stream": True, "stream_options": {"include_usage": True},
     "logprobs": True, "top_logprobs": 2},
    {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "Gr\u00fc\u00dfe \U0001f600"}],
     "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}], "tool_choice": "auto",
     "max_completion_tokens": 4, "temperature": 0, "top_k": 5, "min_p": 0.1, "seed": 7, "user": "u",
     "chat_template_kwargs": {"enable_thinking": False}, "response_format": {"type": "text"}},
    {"prompt": [[1, 2], [3]], "echo": True, "n": 2, "best_of": 2, "stop": "x", "temperature": 0.5, "top_p": 0.9,
     "seed": -1, "max_tokens": 4},
    {"prompt": ["a", "b"], "suffix": None, "logprobs": 3, "frequency_penalty": -2, "presence_penalty": 2.0},
]


def post(path, body):
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def names_in(value):
    """Every key and string of a JSON value."""
    if isinstance(value, dict):
        return {word for key, inner in value.items() for word in {key} | names_in(inner)}
    if isinstance(value, list):
        return {word for inner in value for word in names_in(inner)}
    return {value} if isinstance(value, str) and value.isascii() else set()


def tokenizer(pieces, merges=(), model=None, **parts):
    return {"version": "1.0", "normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None,
            "added_tokens": [{"id": len(pieces), "content": "<|end|>", "special": True, "normalized": False, "lstrip": False,
                              "rstrip": True, "single_word": False}],
            "model": {"type": "BPE", "vocab": {piece: i for i, piece in enumerate(pieces)}, "merges": list(merges),
                      **(model or {})}, **parts}


def tokenizers():
    """Small tokenizers of the kinds that are read: byte-level, and SentencePiece-like with bytes to fall back to."""
    letters = [chr(c) for c in range(33, 127)] + ["\u0120", "\u010a", "\u00c3", "\u00a9"]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    pattern = {"type": "Split", "pattern": {"Regex": r"(?i:'s|'t)|\p{L}+|\p{N}{1,3}|\s+(?!\S)|\s+"}, "behavior": "Isolated",
               "invert": False}
    metaspace = [f"<0x{i:02X}>" for i in range(256)] + ["\u2581", "a", "b", "\u2581a", "ab", "\u2581ab"]
    return {
        "byte_level": (tokenizer(letters + ["he", "ll", "hell", "\u0120h"], ["h e", "l l", "he ll", "\u0120 h"],
                                 pre_tokenizer=byte_level, decoder=byte_level), "hello  h\u00e9 <|end|> 42"),
        "split": (tokenizer(letters + ["th"], [["t", "h"]], {"ignore_merges": True}, normalizer={"type": "NFC"},
                            pre_tokenizer={"type": "Sequence", "pretokenizers": [pattern, {**byte_level, "use_regex": False}]},
                            decoder=byte_level), "the e\u0301 1234's\n\n"),
        "metaspace": (tokenizer(metaspace, ["\u2581 a", "a b", "\u2581 ab"],
                                {"byte_fallback": True, "fuse_unk": True, "unk_token": "<0x00>"},
                                normalizer={"type": "Sequence", "normalizers": [
                                    {"type": "Prepend", "prepend": "\u2581"},
                                    {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
                                decoder={"type": "Sequence", "decoders": [
                                    {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                                    {"type": "ByteFallback"}, {"type": "Fuse"},
                                    {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}), "ab a \u65e5"),
    }


def dictionary(words):
    """libFuzzer's form: one quoted word a line."""
    quote = lambda word: "".join(c if 32 <= ord(c) < 127 and c not in '"\\' else f"\\x{ord(c):02x}" for c in word)
    return "".join(f'"{quote(word)}"\n' for word in sorted(set(words))).encode()


H, V, I, E, HEAD, DK = 4, 8, 6, 2, 8, 4  # sizes of the models below; two heads of each kind, but one for keys and values


def network(settings, tensors, gguf=False):
    """tensors: (name, shape). The fuzz target gives them bytes."""
    listed = [[name, "f32", list(shape)] for name, shape in tensors]
    return json.dumps({"gguf": gguf, "settings": settings, "tensors": listed}).encode()


def attention(p, names):
    q, k, v, o, qn, kn = names
    return [(p + q, (4 * HEAD, H)), (p + k, (HEAD, H)), (p + v, (HEAD, H)), (p + o, (H, 2 * HEAD)), (p + qn, (HEAD,)),
            (p + kn, (HEAD,))]


def hybrid(settings, mixture, fused):
    """A DeltaNet block, an attention block and a drafting head, as Hugging Face names them."""
    names = [f"self_attn.{x}.weight" for x in ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm")]

    def ffn(p):
        if not mixture:
            return [(p + "gate_proj.weight", (I, H)), (p + "up_proj.weight", (I, H)), (p + "down_proj.weight", (H, I))]
        return [(p + "gate.weight", (E, H)), (p + "experts.gate_up_proj", (E, 2 * I, H)),
                (p + "experts.down_proj", (E, H, I)), (p + "shared_expert_gate.weight", (1, H)),
                (p + "shared_expert.gate_proj.weight", (I, H)), (p + "shared_expert.up_proj.weight", (I, H)),
                (p + "shared_expert.down_proj.weight", (H, I))]

    def around(p, mixer):
        return [(p + "input_layernorm.weight", (H,)), (p + "post_attention_layernorm.weight", (H,)), *mixer,
                *ffn(p + "mlp.")]

    d = "model.layers.0.linear_attn."
    split = [(d + "in_proj_qkv.weight", (4 * DK, H)), (d + "in_proj_z.weight", (2 * DK, H)),
             (d + "in_proj_b.weight", (2, H)), (d + "in_proj_a.weight", (2, H))]
    together = [(d + "in_proj_qkvz.weight", (6 * DK, H)), (d + "in_proj_ba.weight", (4, H))]
    delta = [*(together if fused else split), (d + "conv1d.weight", (4 * DK, 1, 4)), (d + "A_log", (2,)),
             (d + "dt_bias", (2,)), (d + "norm.weight", (DK,)), (d + "out_proj.weight", (H, 2 * DK))]
    head = [("mtp.fc.weight", (H, 2 * H)), ("mtp.norm.weight", (H,)), ("mtp.pre_fc_norm_embedding.weight", (H,)),
            ("mtp.pre_fc_norm_hidden.weight", (H,)), *around("mtp.layers.0.", attention("mtp.layers.0.", names))]
    trunk = [("model.embed_tokens.weight", (V, H)), ("model.norm.weight", (H,)), *around("model.layers.0.", delta),
             *around("model.layers.1.", attention("model.layers.1.", names))]
    config = {"vocab_size": V, "hidden_size": H, "num_hidden_layers": 2, "num_attention_heads": 2,
              "num_key_value_heads": 1, "head_dim": HEAD, "max_position_embeddings": 64, "full_attention_interval": 2,
              "linear_num_key_heads": 1, "linear_num_value_heads": 2, "linear_key_head_dim": DK,
              "linear_value_head_dim": DK, "rope_parameters": {"rope_theta": 10000.0}, **settings}
    if mixture:
        config |= {"num_experts": E, "num_experts_per_tok": 1, "moe_intermediate_size": I,
                   "shared_expert_intermediate_size": I}
    else:
        config["intermediate_size"] = I
    return network(config, trunk + head)


def hybrid_gguf():
    """The mixture of hybrid(), as GGUF names it."""
    def around(p, mixer):
        return [(p + "attn_norm.weight", (H,)), (p + "post_attention_norm.weight", (H,)), *mixer,
                (p + "ffn_gate_inp.weight", (E, H)), (p + "ffn_gate_exps.weight", (E, I, H)),
                (p + "ffn_up_exps.weight", (E, I, H)), (p + "ffn_down_exps.weight", (E, H, I)),
                (p + "ffn_gate_inp_shexp.weight", (H,)), (p + "ffn_gate_shexp.weight", (I, H)),
                (p + "ffn_up_shexp.weight", (I, H)), (p + "ffn_down_shexp.weight", (H, I))]

    names = [f"attn_{x}.weight" for x in ("q", "k", "v", "output", "q_norm", "k_norm")]
    d = "blk.0."
    delta = [(d + "attn_qkv.weight", (4 * DK, H)), (d + "attn_gate.weight", (2 * DK, H)), (d + "ssm_beta.weight", (2, H)),
             (d + "ssm_alpha.weight", (2, H)), (d + "ssm_conv1d.weight", (4 * DK, 4)), (d + "ssm_a", (2,)),
             (d + "ssm_dt.bias", (2,)), (d + "ssm_norm.weight", (DK,)), (d + "ssm_out.weight", (H, 2 * DK))]
    head = [("blk.2.nextn.eh_proj.weight", (H, 2 * H)), ("blk.2.nextn.enorm.weight", (H,)),
            ("blk.2.nextn.hnorm.weight", (H,)), ("blk.2.nextn.shared_head_norm.weight", (H,))]
    tensors = [("token_embd.weight", (V, H)), ("output_norm.weight", (H,)), *around("blk.0.", delta),
               *around("blk.1.", attention("blk.1.", names)), *around("blk.2.", attention("blk.2.", names)), *head]
    a = "qwen35moe."
    metadata = {"general.architecture": "qwen35moe", a + "context_length": 64, a + "embedding_length": H,
                a + "block_count": 3, a + "attention.head_count": 2, a + "attention.head_count_kv": [0, 1, 1],
                a + "attention.key_length": HEAD, a + "rope.dimension_count": 2, a + "ssm.conv_kernel": 4,
                a + "ssm.state_size": DK, a + "ssm.group_count": 1, a + "ssm.time_step_rank": 2,
                a + "ssm.inner_size": 2 * DK, a + "full_attention_interval": 2, a + "nextn_predict_layers": 1,
                a + "expert_count": E, a + "expert_used_count": 1, a + "expert_feed_forward_length": I}
    return network(metadata, tensors, True)


def weights():
    small = [("a", 0, (4, 2)), ("b", 2, (32, 3))]
    blocks = [(f"t{kind}", kind, (elements, 2)) for kind, (elements, _) in BLOCKS.items()]
    affine = [("m.weight", "U32", [2, 8], 64), ("m.scales", "BF16", [2, 1], 4), ("m.biases", "BF16", [2, 1], 4)]
    nvfp4 = [("m.weight", "U32", [2, 4], 32), ("m.scales", "U8", [2, 2], 4)]
    plain = [("a", "F32", [2], 8), ("b", "BF16", [], 2), ("c", "F8_E4M3", [3], 3), ("d", "I64", [0, 4], 0)]
    return {
        "fuzz_gguf/small": gguf(3, [], small), "fuzz_gguf/values": gguf(2, every_value(), small),
        "fuzz_gguf/blocks": gguf(3, [], blocks),
        "fuzz_safetensors/plain": safetensors(plain, None),
        "fuzz_safetensors/affine": safetensors(affine, {"quantization": {"bits": 4, "group_size": 64}}),
        "fuzz_safetensors/override": safetensors(affine, {"quantization": {"m": {"bits": 4, "group_size": 64}}}),
        "fuzz_safetensors/nvfp4": safetensors(nvfp4, {"quantization_config": {"mode": "nvfp4"}}),
    }


def networks():
    seeds = {
        "fuzz_network/dense": hybrid({"model_type": "qwen3_5_text"}, False, False),
        "fuzz_network/mixture": hybrid({"model_type": "qwen3_5_moe_text"}, True, False),
        "fuzz_network/next": hybrid({"model_type": "qwen3_next"}, True, True),
        "fuzz_network/gguf": hybrid_gguf(),
    }
    words = set().union(*(names_in(json.loads(seed)) for seed in seeds.values()))
    return {**seeds, "fuzz_network.dict": dictionary({f'"{word}"' for word in words})}


def texts():
    seeds = {f"fuzz_jinja/{i}": template.encode() for i, template in enumerate(TEMPLATES)}
    for path in sorted((ROOT / "tests/data/templates").glob("*.jinja")):
        seeds[f"fuzz_jinja/{path.stem}"] = path.read_bytes()
    seeds["fuzz_jinja.dict"] = dictionary(TEMPLATE_WORDS)
    for i, chat in enumerate(CHATS):
        body = json.dumps(chat, ensure_ascii=False).encode()
        seeds[f"fuzz_json_request/{i}"] = body
        seeds[f"fuzz_http_request/body{i}"] = post("/v1/chat/completions" if "messages" in chat else "/v1/completions", body)
    seeds["fuzz_json_request.dict"] = dictionary({f'"{word}"' for word in names_in(CHATS)})
    for i, request in enumerate(REQUESTS):
        seeds[f"fuzz_http_request/{i}"] = request.encode()
    seeds["fuzz_http_request.dict"] = dictionary(REQUEST_WORDS)
    words = {"\0"}
    for name, (config, text) in tokenizers().items():
        seeds[f"fuzz_tokenizer_json/{name}"] = json.dumps(config, ensure_ascii=False).encode() + b"\0" + text.encode()
        words |= {f'"{word}"' for word in names_in({key: value for key, value in config.items() if key != "model"})}
    seeds["fuzz_tokenizer_json.dict"] = dictionary(words)
    return seeds


def main():
    out = pathlib.Path(sys.argv[1])
    for name, content in {**weights(), **networks(), **texts()}.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


if __name__ == "__main__":
    main()
