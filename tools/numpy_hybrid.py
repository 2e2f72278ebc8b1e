#!/usr/bin/env python3
"""The Qwen3.5 family with its drafting head in NumPy, in fp64: an oracle of its own for the head.

    python3 tools/numpy_hybrid.py FOLDER...

needs numpy only. Each FOLDER is a checkpoint in Hugging Face layout with golden.json beside it, as
tools/make_hybrid_goldens.py writes them. Compares the model's logits with logits.bin, and for a checkpoint with a head
writes

    mtp.json  {"drafts": [{"prompt": n, "tokens": [drafts chained at depth 1, 2, 3]}]}; n: the tokens of the first prompt
              that the head has seen
    mtp.bin   float32 little-endian, [prompt][row][vocab]: the head's logits; row r joins the hidden vector of position r
              (after the final norm) with token r + 1, and stands here where (r + 1) % every == 0

It is written from the formulas, not from the C++, and shares no code with it. As a module it gives load() and the
functions of each part.
"""

import argparse
import json
import pathlib

import numpy as np

DRAFTS = 3
DRAFTS_AFTER = (16, 40, 100, 200)


def read_safetensors(path):
    """{name: float64 array}."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        raw = data[8 + length + begin:8 + length + end]
        if entry["dtype"] == "BF16":
            values = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(raw, {"F32": "<f4", "F16": "<f2"}[entry["dtype"]])
        tensors[name] = values.astype(np.float64).reshape(entry["shape"])
    return tensors


class Weights:
    """Tensors under a prefix: weights["mlp.gate.weight"], weights.under("layers.0.")."""

    def __init__(self, tensors, prefix=""):
        self.tensors, self.prefix = tensors, prefix

    def __getitem__(self, name):
        return self.tensors[self.prefix + name]

    def __contains__(self, name):
        return self.prefix + name in self.tensors

    def under(self, prefix):
        return Weights(self.tensors, self.prefix + prefix)


class Model:
    def __init__(self, folder):
        config = json.loads((folder / "config.json").read_text())
        tied = config.get("tie_word_embeddings", False)
        self.config = config.get("text_config", config)
        tensors = {}
        for file in sorted(folder.glob("*.safetensors")):
            tensors.update(read_safetensors(file))
        nested = any(name.startswith("model.language_model.") for name in tensors)
        self.trunk = Weights(tensors, "model.language_model." if nested else "model.")
        self.embedding = self.trunk["embed_tokens.weight"]
        self.head = self.embedding if tied else tensors["lm_head.weight"]
        self.mtp = Weights(tensors, "mtp.") if "mtp.fc.weight" in tensors else None
        self.eps = self.config["rms_norm_eps"]


def load(folder):
    return Model(pathlib.Path(folder))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def rms(x, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)


def norm(model, x, delta):
    """These norms are stored as differences from one."""
    return rms(x, model.eps) * (1 + delta)


def rotate(x, positions, config):
    """x: [rows, heads, head_dim]. The first part of a head turns, element i with element i + rotated / 2."""
    rope = config["rope_parameters"]
    rotated = int(config["head_dim"] * rope.get("partial_rotary_factor", config.get("partial_rotary_factor", 0.25)))
    half = rotated // 2
    angle = positions[:, None] * rope["rope_theta"] ** (-2 * np.arange(half) / rotated)
    cos, sin = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
    a, b = x[..., :half], x[..., half:rotated]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, x[..., rotated:]], axis=-1)


def attention(model, w, x, kept):
    """x: [rows, hidden], the rows after those in kept, the list of (k, v) so far; appends to it."""
    c = model.config
    heads, kv_heads, d = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
    rows = len(x)
    first = sum(len(k) for k, _ in kept)
    positions = first + np.arange(rows)
    p = (x @ w["q_proj.weight"].T).reshape(rows, heads, 2 * d)
    q, gate = p[..., :d], p[..., d:]
    k = (x @ w["k_proj.weight"].T).reshape(rows, kv_heads, d)
    v = (x @ w["v_proj.weight"].T).reshape(rows, kv_heads, d)
    q = rotate(norm(model, q, w["q_norm.weight"]), positions, c)
    k = rotate(norm(model, k, w["k_norm.weight"]), positions, c)
    kept.append((k, v))
    k, v = (np.concatenate([entry[i] for entry in kept]) for i in (0, 1))
    out = np.empty((rows, heads, d))
    for h in range(heads):
        group = h // (heads // kv_heads)
        scores = q[:, h] @ k[:, group].T / np.sqrt(d)
        scores[np.arange(len(k))[None, :] > positions[:, None]] = -np.inf
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        out[:, h] = scores / scores.sum(axis=-1, keepdims=True) @ v[:, group]
    return (out * sigmoid(gate)).reshape(rows, heads * d) @ w["o_proj.weight"].T


def delta_net(model, w, x):
    """x: [rows, hidden] of a whole sequence."""
    c = model.config
    key_heads, value_heads = c["linear_num_key_heads"], c["linear_num_value_heads"]
    dk, dv, kernel = c["linear_key_head_dim"], c["linear_value_head_dim"], c["linear_conv_kernel_dim"]
    rows, keys = len(x), key_heads * dk
    u = x @ w["in_proj_qkv.weight"].T
    z = (x @ w["in_proj_z.weight"].T).reshape(rows, value_heads, dv)
    beta = sigmoid(x @ w["in_proj_b.weight"].T)
    dt = np.logaddexp(0, x @ w["in_proj_a.weight"].T + w["dt_bias"])
    decay = np.exp(-np.exp(w["A_log"]) * dt)
    taps = w["conv1d.weight"][:, 0, :]
    padded = np.concatenate([np.zeros((kernel - 1, u.shape[1])), u])
    mixed = silu(sum(padded[j:j + rows] * taps[:, j] for j in range(kernel)))
    q, k, v = mixed[:, :keys], mixed[:, keys:2 * keys], mixed[:, 2 * keys:]
    repeat = value_heads // key_heads

    def unit(heads):
        heads = heads.reshape(rows, key_heads, dk)
        return np.repeat(heads / np.sqrt((heads ** 2).sum(-1, keepdims=True) + 1e-6), repeat, axis=1)

    q, k, v = unit(q) / np.sqrt(dk), unit(k), v.reshape(rows, value_heads, dv)
    state = np.zeros((value_heads, dv, dk))
    out = np.empty((rows, value_heads, dv))
    for t in range(rows):
        state = state * decay[t][:, None, None]
        memory = np.einsum("hvk,hk->hv", state, k[t])
        state = state + np.einsum("hv,hk->hvk", beta[t][:, None] * (v[t] - memory), k[t])
        out[t] = np.einsum("hvk,hk->hv", state, q[t])
    act = sigmoid if c.get("output_gate_type") == "sigmoid" else silu
    out = rms(out, model.eps) * w["norm.weight"] * act(z)
    return out.reshape(rows, value_heads * dv) @ w["out_proj.weight"].T


def gated(x, gate, up, down):
    return (silu(x @ gate.T) * (x @ up.T)) @ down.T


def feed_forward(model, w, x):
    if "gate_proj.weight" in w:
        return gated(x, w["gate_proj.weight"], w["up_proj.weight"], w["down_proj.weight"])
    logits = x @ w["gate.weight"].T
    both, down = w["experts.gate_up_proj"], w["experts.down_proj"]
    inner = both.shape[1] // 2
    p = np.exp(logits - logits.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    y = np.zeros_like(x)
    for t in range(len(x)):
        chosen = np.argsort(-p[t], kind="stable")[:model.config["num_experts_per_tok"]]
        for e in chosen:
            y[t] += p[t, e] / p[t, chosen].sum() * gated(x[t], both[e, :inner], both[e, inner:], down[e])
    shared = gated(x, *(w[f"shared_expert.{part}_proj.weight"] for part in ("gate", "up", "down")))
    return y + sigmoid(x @ w["shared_expert_gate.weight"].T) * shared


def block(model, w, x, kept):
    h = norm(model, x, w["input_layernorm.weight"])
    if "self_attn.q_proj.weight" in w:
        x = x + attention(model, w.under("self_attn."), h, kept)
    else:
        x = x + delta_net(model, w.under("linear_attn."), h)
    return x + feed_forward(model, w.under("mlp."), norm(model, x, w["post_attention_layernorm.weight"]))


def hidden_vectors(model, tokens):
    """[tokens, hidden], before the final norm."""
    x = model.embedding[tokens]
    for i in range(model.config["num_hidden_layers"]):
        x = block(model, model.trunk.under(f"layers.{i}."), x, [])
    return x


def after_norm(model, x):
    return norm(model, x, model.trunk["norm.weight"])


def mtp_rows(model, hidden, tokens, kept):
    """The head on rows (hidden[r], tokens[r]), after those in kept: its own hidden vectors, after its norm."""
    w = model.mtp
    e = norm(model, model.embedding[tokens], w["pre_fc_norm_embedding.weight"])
    h = norm(model, hidden, w["pre_fc_norm_hidden.weight"])
    x = np.concatenate([e, h], axis=-1) @ w["fc.weight"].T
    x = block(model, w.under("layers.0."), x, kept)
    return norm(model, x, w["norm.weight"])


def drafts(model, hidden, tokens, count):
    """Tokens that follow `tokens`, whose last one is the newest, by the head chained on itself. hidden: [tokens, hidden];
    the last row is not needed: the newest token's own vector comes with the next run of the model."""
    kept, found = [], []
    m = mtp_rows(model, hidden[:len(tokens) - 1], np.array(tokens[1:]), kept)[-1:]
    while True:
        found.append(int(np.argmax(m @ model.head.T)))
        if len(found) == count:
            return found
        m = mtp_rows(model, m, np.array(found[-1:]), kept)


def largest_error(expected, got):
    """|a - b| over |a| of a row; the largest over rows."""
    return float((np.linalg.norm(expected - got, axis=-1) / np.linalg.norm(expected, axis=-1)).max())


def golden(folder):
    model = load(folder)
    facts = json.loads((folder / "golden.json").read_text())
    every, vocab = facts["every"], facts["vocab"]
    expected = np.frombuffer((folder / "logits.bin").read_bytes(), "<f4").reshape(-1, vocab)
    at, heads, lines = 0, [], []
    for number, prompt in enumerate(facts["prompts"]):
        x = after_norm(model, hidden_vectors(model, np.array(prompt)))
        logits = x @ model.head.T
        kept = logits[every - 1::every]
        error = largest_error(expected[at:at + len(kept)], kept)
        same = int((logits.argmax(-1) == np.array(facts["top"][number])).sum())
        print(f"{folder.name}: prompt of {len(prompt)}: relative error {error:.1e}, {same} of {len(prompt)} tops equal")
        at += len(kept)
        if model.mtp is None:
            continue
        m = mtp_rows(model, x[:-1], np.array(prompt[1:]), [])
        heads.append((m @ model.head.T)[every - 1::every])
        if number == 0:
            lines = [{"prompt": n, "tokens": drafts(model, x, prompt[:n], DRAFTS)} for n in DRAFTS_AFTER]
    if heads:
        (folder / "mtp.bin").write_bytes(np.concatenate(heads).astype("<f4").tobytes())
        (folder / "mtp.json").write_text(json.dumps({"drafts": lines}) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    for folder in parser.parse_args().folders:
        golden(folder)


if __name__ == "__main__":
    main()
