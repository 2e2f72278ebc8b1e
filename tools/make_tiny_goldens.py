#!/usr/bin/env python3
"""Makes tiny random models and their logits, as golden data for the forward pass.

    python3 tools/make_tiny_goldens.py OUT

needs torch and transformers (5.x). Writes one file, OUT/tiny_goldens.tar; unpack it into tests/data/tiny_goldens.
Each model NAME is a folder in it:

    NAME/config.json, NAME/model.safetensors    as transformers saves them, bf16 (llama_tied: fp32)
    NAME/golden.json                            {"transformers", "torch", "prompts": [[token ids]], "vocab"}
    NAME/logits.bin                             float32 little-endian, [prompt][position][vocab], eager attention

The models cover what the families differ in: rope scaling, biases, q/k norms, sliding windows, tied heads,
head_dim unlike hidden / heads. All weights are bf16 values, which keeps the files small; the logits are computed in
fp32. Random weights keep every layer's output of the order of its input, so that the logits
depend on all of them.
"""

import json

import golden_archive
import torch
import transformers
from transformers import (LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config,
                          Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)

VOCAB = 256
PROMPT_LENGTHS = (24, 23)
SIZES = dict(vocab_size=VOCAB, hidden_size=64, intermediate_size=96, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=512, rms_norm_eps=1e-5, bos_token_id=None, eos_token_id=None, pad_token_id=None)
LLAMA3 = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=128)
LINEAR = dict(rope_type="linear", rope_theta=10000.0, factor=2.0)
DEFAULT = dict(rope_type="default", rope_theta=10000.0)


def models():
    """Yields (name, model) with random weights."""
    def llama(**options):
        return LlamaForCausalLM(LlamaConfig(**{**SIZES, "num_hidden_layers": 2, **options}))

    yield "llama_rope_llama3", llama(rope_parameters=LLAMA3, tie_word_embeddings=False)
    yield "llama_tied", llama(rope_parameters=DEFAULT, tie_word_embeddings=True)
    yield "llama_linear_biases", llama(rope_parameters=LINEAR, tie_word_embeddings=True, attention_bias=True,
                                       mlp_bias=True)
    yield "mistral_window", MistralForCausalLM(MistralConfig(
        **{**SIZES, "num_hidden_layers": 2}, head_dim=24, sliding_window=8, rope_parameters=DEFAULT,
        tie_word_embeddings=False))
    yield "qwen2_biases", Qwen2ForCausalLM(Qwen2Config(
        **{**SIZES, "num_hidden_layers": 3}, rope_parameters={**DEFAULT, "rope_theta": 1e6}, tie_word_embeddings=True))
    yield "qwen2_yarn", Qwen2ForCausalLM(Qwen2Config(
        **{**SIZES, "num_hidden_layers": 2}, rope_parameters=YARN, tie_word_embeddings=False, use_sliding_window=True,
        sliding_window=10, max_window_layers=1))
    yield "qwen3_norms", Qwen3ForCausalLM(Qwen3Config(
        **{**SIZES, "num_hidden_layers": 2}, head_dim=32, rope_parameters={**DEFAULT, "rope_theta": 1e6},
        tie_word_embeddings=True))


def randomise(model, seed):
    """Fills every parameter: matrices keep the size of their input, norms lie around one, biases are clearly not zero."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if name.endswith("bias"):
                value = 0.5 * noise
            elif "norm" in name:
                value = 1 + 0.2 * noise
            elif "embed_tokens" in name or "lm_head" in name:
                value = 0.3 * noise
            else:
                value = 1.2 * noise / parameter.shape[-1] ** 0.5
            parameter.copy_(value.to(torch.bfloat16).float())


def golden(model, folder, seed):
    """Saves one model and its logits."""
    model = model.eval().float()
    model.set_attn_implementation("eager")
    randomise(model, seed)
    generator = torch.Generator().manual_seed(seed + 1000)
    prompts = [torch.randint(0, VOCAB, (length,), generator=generator) for length in PROMPT_LENGTHS]
    with torch.no_grad():
        logits = [model(prompt[None], use_cache=False).logits[0].float() for prompt in prompts]
    (folder / "logits.bin").write_bytes(b"".join(rows.contiguous().numpy().astype("<f4").tobytes() for rows in logits))
    (folder / "golden.json").write_text(json.dumps({
        "transformers": transformers.__version__, "torch": torch.__version__, "vocab": VOCAB,
        "prompts": [prompt.tolist() for prompt in prompts]}))
    model.to(torch.float32 if folder.name == "llama_tied" else torch.bfloat16).save_pretrained(folder)
    spread = max(rows.abs().max().item() for rows in logits)
    print(f"{folder.name}: {sum(p.numel() for p in model.parameters())} parameters, largest logit {spread:.2f}")


if __name__ == "__main__":
    golden_archive.main(__doc__, "tiny_goldens.tar", models, golden)
