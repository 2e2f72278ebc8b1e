"""Exactness on held-out functions, acceptance of the head's drafts, loss on held-out source."""

import json
import os
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

import mlx_affine

from .generation import acceptance, draft_matches, greedy, natural_acceptance
from .rows import EXTRA
from .training import entropy

FREE = ("story", "complete")  # kinds whose answers are not one text
SOURCE_PROMPT, SOURCE_NEW, SOURCE_LENGTH = 300, 200, 512


def quantise(model, bits=4, group=64):
    """In place: the values that the pack of these bits holds."""
    for name, p in model.named_parameters():
        kept = mlx_affine.bits_of(name, p.shape, bits)
        if kept:
            values = mlx_affine.rounded(p.detach().cpu().numpy(), kept, group)
            p.data.copy_(torch.from_numpy(values))
    return model


@torch.no_grad()
def held_out_loss(model, tokens, length=2048, count=16):
    """(mean loss, mean loss of the head's first draft, entropy of the experts' shares) on rows of held-out source."""
    count = min(count, len(tokens) // length)
    ids = torch.from_numpy(tokens[: count * length].astype(np.int64)).view(count, length).to(model.cos.device)
    main, draft, shares = [], [], []
    for part in ids.split(4):
        embedding = model.model.embed_tokens(part)
        hidden, _, uses, _ = model.trunk(embedding)
        output, *_ = model.draft_first(hidden[:, :-1], embedding[:, 1:])
        main.append(float(F.cross_entropy(model.logits(hidden[:, :-1]).flatten(0, 1), part[:, 1:].flatten())))
        draft.append(float(F.cross_entropy(model.logits(output[:, :-1]).flatten(0, 1), part[:, 2:].flatten())))
        shares.append(torch.stack(uses))
    return (
        round(float(np.mean(main)), 4),
        round(float(np.mean(draft)), 4),
        round(entropy(torch.stack(shares).mean(0)), 4),
    )


def exact(got, want):
    return got.strip() == want.strip()


def evaluate(model, folder, log, count=100, kinds=None):
    """A report as a dictionary. All prompts of all kinds are continued in one batch."""
    from tokenizers import Tokenizer

    torch.backends.cuda.matmul.allow_tf32 = False
    tok = Tokenizer.from_file(f"{folder}/tokenizer.json")
    held = json.loads((Path(folder) / "held.json").read_text())

    def encode(text):
        return tok.encode(text, add_special_tokens=False).ids

    spans, prompts, most = {}, [], []
    for kind, entries in held.items():
        if kinds and kind not in kinds:
            continue
        entries, first = entries[:count], len(prompts)
        if kind == "source":
            prompts += [encode(text)[:SOURCE_PROMPT] for text in entries]
            most += [SOURCE_NEW] * len(entries)
        else:
            prompts += [encode(prompt) for prompt, _ in entries]
            most += [len(encode(answer)) + 40 for _, answer in entries]
        spans[kind] = (first, len(prompts))
    outputs = greedy(model, prompts, most)
    matches = draft_matches(model, prompts, outputs)
    report = {}
    for kind, (first, last) in spans.items():
        drafts, tokens_a_round = acceptance(matches[first:last])
        row = {
            "texts": last - first,
            "draft_acceptance": drafts,
            "tokens_a_round": tokens_a_round,
            "new_tokens": sum(map(len, outputs[first:last])),
        }
        texts = [tok.decode(output, skip_special_tokens=True) for output in outputs[first:last]]
        if kind == "source":
            whole = [ids[: SOURCE_LENGTH + EXTRA] for ids in map(encode, held[kind][:count])]
            row["natural_acceptance"] = natural_acceptance(model, [w for w in whole if len(w) == SOURCE_LENGTH + EXTRA])
        elif kind not in FREE:
            wanted = [answer for _, answer in held[kind][:count]]
            right = [exact(a, b) for a, b in zip(texts, wanted)]
            row["exact"] = sum(right)
            misses = [(a, b, p) for a, b, p, ok in zip(texts, wanted, held[kind], right) if not ok]
            for got, want, _ in misses[:2]:
                at = len(os.path.commonprefix([got, want]))
                log(
                    f"    {kind}, at {at}: wanted {want[max(0, at - 40):at + 40]!r}, got {got[max(0, at - 40):at + 40]!r}"
                )
        if kind in ("story", "source", "chat"):
            log(f"    {kind}: {texts[0][:500]!r}")
        report[kind] = row
        log(f"{kind:10s} {json.dumps(row)}")
    report["held_out_source"] = dict(
        zip(("loss", "draft_loss", "expert_entropy"), held_out_loss(model, np.load(Path(folder) / "val.npy")))
    )
    log(json.dumps(report["held_out_source"]))
    return report
