"""Greedy text of many prompts at once, and how well the drafting head foresees it. All in fp32."""

import numpy as np
import torch
import torch.nn.functional as F

from .model import attention_bias
from .rows import EXTRA
from .tokenizer import END_ID, END_OF_TEXT_ID

PREFILL = 16  # prompts at once


def prefill(model, prompts):
    """Prompts padded to one length. Returns the first tokens and the states of all layers, of each row's own length."""
    device = model.cos.device
    lengths = torch.tensor([len(p) for p in prompts], device=device)
    longest = int(lengths.max())
    ids = torch.tensor([p + [END_OF_TEXT_ID] * (longest - len(p)) for p in prompts], device=device)
    hidden, _, _, states = model.trunk(model.model.embed_tokens(ids), lengths=lengths)
    last = hidden[torch.arange(len(prompts), device=device), lengths - 1]
    return model.logits(last).argmax(-1), states


def prefill_all(model, prompts, capacity):
    """First tokens [n] and caches: keys and values [n, heads, capacity, dim], or conv rows and delta states."""
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    back = torch.tensor(order, device=model.cos.device).argsort()
    firsts, parts = [], []
    for a in range(0, len(order), PREFILL):
        first, states = prefill(model, [prompts[i] for i in order[a : a + PREFILL]])
        firsts.append(first)
        parts.append(
            [
                tuple(F.pad(t, (0, 0, 0, capacity - t.shape[2])) for t in state) if block.full else state
                for block, state in zip(model.model.layers, states)
            ]
        )
    caches = [
        tuple(torch.cat([part[layer][i] for part in parts])[back].contiguous() for i in (0, 1))
        for layer in range(len(model.model.layers))
    ]
    return torch.cat(firsts)[back], caches


@torch.no_grad()
def greedy(model, prompts, most_new):
    """Lists of new tokens, the end marker included; most_new: one number for each prompt."""
    device = model.cos.device
    capacity = max(len(p) + m for p, m in zip(prompts, most_new)) + 1
    token, caches = prefill_all(model, prompts, capacity)
    position = torch.tensor([len(p) for p in prompts], device=device)
    limit, places = torch.tensor(most_new, device=device), torch.arange(capacity, device=device)

    def step():  # in place on token, position and caches, so that a CUDA graph can replay it
        x = model.model.embed_tokens(token[:, None])
        angles = model.cos[position][:, None, None], model.sin[position][:, None, None]
        bias = torch.where(places <= position[:, None], 0.0, float("-inf"))[:, None, None]
        for block, cache in zip(model.model.layers, caches):
            if block.full:
                x, *_ = block(x, angles, bias, cache, position)
            else:
                x, _, _, state = block(x, cache)
                cache[0].copy_(state[0])
                cache[1].copy_(state[1])
        token.copy_(model.logits(model.model.norm(x)[:, 0]).argmax(-1))
        position.add_(1).clamp_(max=capacity - 1)

    outputs = [token.clone()]
    run = captured(step, [token, position, *(t for cache in caches for t in cache)]) if device.type == "cuda" else step
    done = (token == END_ID) | (token == END_OF_TEXT_ID)
    for made in range(1, max(most_new)):
        run()
        outputs.append(token.clone())
        done |= (token == END_ID) | (token == END_OF_TEXT_ID) | (made + 1 >= limit)
        if made % 16 == 0 and bool(done.all()):
            break
    return [cut(row[:most]) for row, most in zip(torch.stack(outputs, 1).tolist(), most_new)]


def captured(step, tensors):
    kept = [t.clone() for t in tensors]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for tensor, value in zip(tensors, kept):
        tensor.copy_(value)
    return graph.replay


def cut(tokens):
    ends = [i for i, token in enumerate(tokens) if token in (END_ID, END_OF_TEXT_ID)]
    return tokens[: ends[0] + 1] if ends else tokens


@torch.no_grad()
def chain(model, ids, length, depth):
    """Draft logits' argmax [depth][rows, length]: step d made at place t proposes token t + d + 1. ids has EXTRA
    more."""
    embedding = model.model.embed_tokens(ids)
    hidden = model.trunk(embedding)[0]
    document = torch.zeros_like(ids[:, :length])
    found = []
    for d in range(1, depth + 1):
        bias = attention_bias(document, d, torch.float32)
        if d == 1:
            output, _, kv = model.draft_first(hidden[:, :length], embedding[:, 1 : length + 1], bias)
        else:
            output, kv = model.draft_next(output, embedding[:, d : length + d], kv, d, bias)
        found.append(model.logits(output).argmax(-1))
    return found, model.logits(hidden).argmax(-1)


def draft_matches(model, prompts, outputs, depth=3):
    """For each text: match[d][i], whether step d + 1 of a chain begun at the output's place i foresees the greedy
    text."""
    results = [None] * len(prompts)
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]) + len(outputs[i]))
    for a in range(0, len(order), 10):
        rows = order[a : a + 10]
        texts = [prompts[i] + outputs[i] for i in rows]
        length = max(map(len, texts))
        length += -length % 8
        ids = torch.tensor(
            [text + [END_OF_TEXT_ID] * (length + EXTRA - len(text)) for text in texts], device=model.cos.device
        )
        found, _ = chain(model, ids, length, depth)
        hits = [(found[d - 1] == ids[:, d + 1 : length + d + 1]).cpu().numpy() for d in range(1, depth + 1)]
        for row, i in enumerate(rows):
            first, end = len(prompts[i]) - 1, len(texts[row]) - 2
            places = np.arange(first, max(first, end))
            results[i] = [hits[d][row, places] & (places + d + 2 < len(texts[row])) for d in range(depth)]
    return results


def acceptance(matches):
    """({depth: accepted share of the drafts whose forerunners were accepted}, tokens a round at the full depth)."""
    hit, tried = np.zeros(8), np.zeros(8)
    tokens = rounds = 0
    for match in matches:
        n, i = len(match[0]), 0
        alive = np.ones(n, bool)
        for d, row in enumerate(match):
            alive = alive[: n - d]
            tried[d] += alive.sum()
            alive = alive & row[: len(alive)]
            hit[d] += alive.sum()
        while i < n:
            a = 0
            while a < len(match) and i + a < n and match[a][i]:
                a += 1
            tokens += a + 1
            rounds += 1
            i += a + 1
    return {d + 1: round(float(hit[d] / tried[d]), 4) for d in range(8) if tried[d]}, round(tokens / max(rounds, 1), 3)


@torch.no_grad()
def natural_acceptance(model, texts, depth=3):
    """On real text: the share of drafts that are the trunk's own choice, where drafts and text agreed so far. texts:
    token lists of one length."""
    hit, tried = [0] * depth, [0] * depth
    for a in range(0, len(texts), 10):
        ids = torch.tensor(texts[a : a + 10], device=model.cos.device)
        length = ids.shape[1] - EXTRA
        found, chosen = chain(model, ids, length, depth)
        alive = torch.ones_like(ids[:, :length], dtype=torch.bool)
        for d in range(1, depth + 1):
            want = chosen[:, d : length + d]
            same = found[d - 1] == want
            hit[d - 1] += int((same & alive).sum())
            tried[d - 1] += int(alive.sum())
            alive = alive & same & (want == ids[:, d + 1 : length + d + 1])
    return {d + 1: round(hit[d] / max(tried[d], 1), 4) for d in range(depth)}
