#!/usr/bin/env python3
"""Makes tiny random hybrid models and mixtures and their logits, as golden data for the forward pass.

    python3 tools/make_hybrid_goldens.py OUT

needs torch and transformers (5.x) and runs on the CPU, without a network. Writes one file, OUT/hybrid_goldens.tar; unpack
it into tests/data/hybrid_goldens. Each model NAME is a folder in it:

    NAME/config.json, NAME/model.safetensors    as transformers saves them, bf16 (dense_fp32: fp32), with the drafting
                                                head mtp.*, for which transformers has no code
    NAME/golden.json                            {"transformers", "torch", "vocab", "prompts": [[token ids]],
                                                 "every": n, "top": [[most likely next token of each position]],
                                                 "greedy": {"prompt": n, "tokens": [200 token ids]}}
    NAME/logits.bin                             float32 little-endian, [prompt][position][vocab], of the positions p with
                                                (p + 1) % every == 0

"greedy" continues the first n tokens of the first prompt. tools/numpy_hybrid.py adds the head's logits.

The models: DeltaNets with 1, 2 and 3 value heads a key head; tied and untied; flat and nested config; mixtures with a
shared expert; and the relatives qwen3_moe and qwen3_next. All weights are bf16 values, which keeps the files small; the
logits are computed in fp32. Random weights keep every layer's output of the order of its input, so that the logits
depend on all of them.
"""

import json
import sys

# Plain torch code on any machine: accelerated packages, where installed, want a GPU.
sys.modules["fla"] = None
sys.modules["causal_conv1d"] = None

import golden_archive  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from transformers import (Qwen3_5ForCausalLM, Qwen3_5MoeForCausalLM, Qwen3_5MoeTextConfig,  # noqa: E402
                          Qwen3_5TextConfig, Qwen3MoeConfig, Qwen3MoeForCausalLM, Qwen3NextConfig,
                          Qwen3NextForCausalLM)

VOCAB = 256
PROMPT_LENGTHS = (256, 24)
EVERY = 8
GREEDY_PROMPT, GREEDY_TOKENS = 16, 200
HIDDEN = 64
ROPE = dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.25, mrope_interleaved=True,
            mrope_section=[2, 1, 1])
SIZES = dict(vocab_size=VOCAB, hidden_size=HIDDEN, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=1,
             head_dim=32, max_position_embeddings=1024, rms_norm_eps=1e-6, bos_token_id=None, eos_token_id=None,
             pad_token_id=None)
DELTA = dict(linear_key_head_dim=16, linear_value_head_dim=16, linear_conv_kernel_dim=4, linear_num_key_heads=2)
DENSE = dict(intermediate_size=96)
EXPERTS = dict(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=32)
SHARED = dict(shared_expert_intermediate_size=32)
ALTERNATING = ["linear_attention", "full_attention"] * 2


def models():
    """Yields (name, model): random weights come later."""
    def dense(value_heads, tied, **options):
        return Qwen3_5ForCausalLM(Qwen3_5TextConfig(**SIZES, **DELTA, **DENSE, rope_parameters=dict(ROPE),
                                                    linear_num_value_heads=value_heads, tie_word_embeddings=tied,
                                                    **options))

    def mixture(value_heads, tied, **options):
        return Qwen3_5MoeForCausalLM(Qwen3_5MoeTextConfig(**SIZES, **DELTA, **EXPERTS, **SHARED,
                                                          rope_parameters=dict(ROPE),
                                                          linear_num_value_heads=value_heads,
                                                          tie_word_embeddings=tied, **options))

    yield "dense_nested", dense(4, True)
    yield "dense_thirds", dense(6, False, layer_types=ALTERNATING)
    yield "dense_fp32", dense(2, True, layer_types=ALTERNATING)
    yield "moe", mixture(4, False)
    yield "moe_nested", mixture(6, True, layer_types=ALTERNATING)
    yield "qwen3_moe", Qwen3MoeForCausalLM(Qwen3MoeConfig(
        **{**SIZES, "num_hidden_layers": 2}, **EXPERTS, **DENSE, norm_topk_prob=False, tie_word_embeddings=False,
        decoder_sparse_step=1, mlp_only_layers=[], rope_parameters=dict(rope_type="default", rope_theta=10000.0)))
    yield "qwen3_next", Qwen3NextForCausalLM(Qwen3NextConfig(
        **SIZES, **DELTA, **EXPERTS, **SHARED, **DENSE, norm_topk_prob=True, linear_num_value_heads=4,
        tie_word_embeddings=False, layer_types=ALTERNATING, decoder_sparse_step=1, mlp_only_layers=[],
        rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.25)))


def random_tensor(name, shape, generator, zero_centred):
    """Matrices keep the size of their input; norms lie around one, or around zero where one is added to them."""
    noise = torch.randn(tuple(shape), generator=generator)
    if name.endswith("A_log"):
        value = 0.7 * noise
    elif name.endswith("dt_bias"):
        value = noise - 1.5
    elif "conv1d" in name:
        value = 0.6 * noise
    elif "norm" in name:
        value = 0.2 * noise + (0 if zero_centred and "linear_attn.norm" not in name else 1)
    elif "embed_tokens" in name or "lm_head" in name:
        value = 0.3 * noise
    else:
        value = 1.2 * noise / shape[-1] ** 0.5
    return value.to(torch.bfloat16).float()


def head_shapes(config, mixture):
    """The tensors of a drafting head: one block like those with full attention, and what joins its two inputs."""
    hidden, d = config.hidden_size, config.head_dim
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    shapes = {"pre_fc_norm_embedding.weight": (hidden,), "pre_fc_norm_hidden.weight": (hidden,),
              "fc.weight": (hidden, 2 * hidden), "norm.weight": (hidden,)}
    block = {"input_layernorm.weight": (hidden,), "post_attention_layernorm.weight": (hidden,),
             "self_attn.q_proj.weight": (2 * heads * d, hidden), "self_attn.k_proj.weight": (kv_heads * d, hidden),
             "self_attn.v_proj.weight": (kv_heads * d, hidden), "self_attn.o_proj.weight": (hidden, heads * d),
             "self_attn.q_norm.weight": (d,), "self_attn.k_norm.weight": (d,)}
    if mixture:
        inner, shared = config.moe_intermediate_size, config.shared_expert_intermediate_size
        block.update({"mlp.gate.weight": (config.num_experts, hidden),
                      "mlp.experts.gate_up_proj": (config.num_experts, 2 * inner, hidden),
                      "mlp.experts.down_proj": (config.num_experts, hidden, inner),
                      "mlp.shared_expert.gate_proj.weight": (shared, hidden),
                      "mlp.shared_expert.up_proj.weight": (shared, hidden),
                      "mlp.shared_expert.down_proj.weight": (hidden, shared),
                      "mlp.shared_expert_gate.weight": (1, hidden)})
    else:
        inner = config.intermediate_size
        block.update({"mlp.gate_proj.weight": (inner, hidden), "mlp.up_proj.weight": (inner, hidden),
                      "mlp.down_proj.weight": (hidden, inner)})
    shapes.update({"layers.0." + name: shape for name, shape in block.items()})
    return {"mtp." + name: shape for name, shape in shapes.items()}


def greedy(model, prompt):
    tokens = prompt.tolist()
    gap = float("inf")
    for _ in range(GREEDY_TOKENS):
        two = model(torch.tensor([tokens]), use_cache=False).logits[0, -1].float().topk(2)
        gap = min(gap, (two.values[0] - two.values[1]).item())
        tokens.append(two.indices[0].item())
    return tokens[len(prompt):], gap


def save(model, folder, head):
    """Saves the model with its head; "nested" ones in the layout of the multimodal checkpoints."""
    model.to(torch.float32 if folder.name == "dense_fp32" else torch.bfloat16)
    # Qwen3.5's own files have all experts of a layer in one tensor, as the model here; the relatives' one tensor each.
    model.save_pretrained(folder, save_original_format=folder.name.startswith("qwen3_"))
    file = folder / "model.safetensors"
    tensors = load_file(file)
    dtype = tensors["model.norm.weight"].dtype
    tensors.update({name: value.to(dtype) for name, value in head.items()})
    config = json.loads((folder / "config.json").read_text())
    if head:
        config["mtp_num_hidden_layers"] = 1
    for name in tensors:
        if name.endswith(("A_log", "linear_attn.norm.weight")):
            tensors[name] = tensors[name].float()
    if folder.name.endswith("_nested"):
        tensors = {"model.language_model." + name.removeprefix("model.") if name.startswith("model.") else name: value
                   for name, value in tensors.items()}
        architecture = config.pop("architectures")[0].replace("ForCausalLM", "ForConditionalGeneration")
        config = {"architectures": [architecture], "model_type": config["model_type"].removesuffix("_text"),
                  "tie_word_embeddings": config["tie_word_embeddings"], "text_config": config}
    save_file({name: value.contiguous() for name, value in tensors.items()}, file, metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")


def golden(model, folder, seed):
    """Saves one model and its logits."""
    model = model.eval().float()
    model.set_attn_implementation("eager")
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("eager")
    generator = torch.Generator().manual_seed(seed)
    hybrid = folder.name != "qwen3_moe"
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(random_tensor(name, parameter.shape, generator, zero_centred=hybrid))
    head = {}
    if not folder.name.startswith("qwen3_"):
        shapes = head_shapes(model.config, mixture="moe" in folder.name)
        head = {name: random_tensor(name, shape, generator, zero_centred=True) for name, shape in shapes.items()}

    generator = torch.Generator().manual_seed(seed + 1000)
    prompts = [torch.randint(0, VOCAB, (length,), generator=generator) for length in PROMPT_LENGTHS]
    with torch.no_grad():
        logits = [model(prompt[None], use_cache=False).logits[0].float() for prompt in prompts]
        continued, gap = greedy(model, prompts[0][:GREEDY_PROMPT])
    kept = [rows[EVERY - 1::EVERY] for rows in logits]
    (folder / "logits.bin").write_bytes(b"".join(rows.contiguous().numpy().astype("<f4").tobytes() for rows in kept))
    (folder / "golden.json").write_text(json.dumps({
        "transformers": transformers.__version__, "torch": torch.__version__, "vocab": VOCAB, "every": EVERY,
        "prompts": [prompt.tolist() for prompt in prompts], "top": [rows.argmax(-1).tolist() for rows in logits],
        "greedy": {"prompt": GREEDY_PROMPT, "tokens": continued}}) + "\n")
    save(model, folder, head)
    spread = max(rows.abs().max().item() for rows in logits)
    size = (folder / "model.safetensors").stat().st_size
    print(f"{folder.name}: {size} bytes, largest logit {spread:.2f}, {len(set(continued))} different tokens of "
          f"{len(continued)} greedy ones, smallest gap {gap:.1e}")


if __name__ == "__main__":
    golden_archive.main(__doc__, "hybrid_goldens.tar", models, golden)
