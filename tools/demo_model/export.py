"""The model as a Hugging Face folder, and back."""

import json
import re
from pathlib import Path

import torch

from . import tokenizer
from .model import Config, Model

FP32 = re.compile(r"A_log|linear_attn\.norm")


def save(model, folder, tokenizer_file):
    from safetensors.torch import save_file

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        name: (p.detach().float() if FP32.search(name) else p.detach().bfloat16()).contiguous().cpu()
        for name, p in model.state_dict().items()
    }
    save_file(tensors, str(folder / "model.safetensors"), metadata={"format": "pt"})
    files = {
        "config.json": model.c.json(),
        "tokenizer_config.json": tokenizer.config(),
        "generation_config.json": {
            "do_sample": False,
            "temperature": 0,
            "pad_token_id": tokenizer.END_OF_TEXT_ID,
            "eos_token_id": [tokenizer.END_ID, tokenizer.END_OF_TEXT_ID],
        },
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=1) + "\n")
    (folder / "chat_template.jinja").write_text(tokenizer.CHAT_TEMPLATE)
    (folder / "tokenizer.json").write_text(Path(tokenizer_file).read_text())


def load(folder, device):
    """In fp32."""
    from safetensors.torch import load_file

    model = Model(Config())
    model.load_state_dict({name: value.float() for name, value in load_file(f"{folder}/model.safetensors").items()})
    return model.to(device).eval()


def transformers_difference(folder, device):
    """(largest difference of fp32 logits, largest logit, share of equal argmax) against the class of transformers."""
    from transformers import AutoModelForCausalLM

    ours, theirs = (
        load(folder, device),
        AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).to(device).eval(),
    )
    ids = torch.randint(7, ours.c.vocab, (2, 200), generator=torch.Generator().manual_seed(0)).to(device)
    with torch.no_grad():
        a = ours.logits(ours.trunk(ours.model.embed_tokens(ids))[0])
        b = theirs(ids, use_cache=False).logits
    return float((a - b).abs().max()), float(b.abs().max()), float((a.argmax(-1) == b.argmax(-1)).float().mean())
