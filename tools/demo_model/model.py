"""The model: exactly the structure of Qwen3.5-MoE with its drafting head, small, in plain PyTorch. Parameter names are
those of Hugging Face checkpoints."""

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

from . import delta_rule
from .tokenizer import END_ID, END_OF_TEXT_ID, VOCABULARY


@dataclass(frozen=True)
class Config:
    vocab: int = VOCABULARY
    hidden: int = 384
    layers: int = 8
    interval: int = 4  # every so many layers one with full attention
    heads: int = 8
    kv_heads: int = 4
    head_dim: int = 64
    rotary: int = 16
    theta: float = 1e7
    key_heads: int = 4
    value_heads: int = 8
    delta_dim: int = 64
    experts: int = 16
    top_k: int = 4
    expert_size: int = 128
    shared_size: int = 128
    eps: float = 1e-6
    context: int = 8192

    def json(self):
        """config.json."""
        return {
            "architectures": ["Qwen3_5MoeForCausalLM"],
            "model_type": "qwen3_5_moe_text",
            "vocab_size": self.vocab,
            "hidden_size": self.hidden,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "max_position_embeddings": self.context,
            "rms_norm_eps": self.eps,
            "tie_word_embeddings": True,
            "attention_bias": False,
            "attn_output_gate": True,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": self.theta,
                "partial_rotary_factor": self.rotary / self.head_dim,
                "mrope_interleaved": True,
                "mrope_section": [3, 3, 2],
            },
            "linear_conv_kernel_dim": 4,
            "linear_key_head_dim": self.delta_dim,
            "linear_value_head_dim": self.delta_dim,
            "linear_num_key_heads": self.key_heads,
            "linear_num_value_heads": self.value_heads,
            "num_experts": self.experts,
            "num_experts_per_tok": self.top_k,
            "moe_intermediate_size": self.expert_size,
            "shared_expert_intermediate_size": self.shared_size,
            "norm_topk_prob": True,
            "full_attention_interval": self.interval,
            "layer_types": ["full_attention" if self.is_full(i) else "linear_attention" for i in range(self.layers)],
            "mamba_ssm_dtype": "float32",
            "mtp_num_hidden_layers": 1,
            "mtp_use_dedicated_embeddings": False,
            "mtp_hidden_state_mode": "post_norm",
            "bos_token_id": None,
            "eos_token_id": [END_ID, END_OF_TEXT_ID],
            "pad_token_id": END_OF_TEXT_ID,
            "dtype": "bfloat16",
        }

    def is_full(self, layer):
        return (layer + 1) % self.interval == 0


class Norm(nn.Module):
    """RMS norm with a weight around zero."""

    def __init__(self, size, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.zeros(size)), eps

    def forward(self, x):
        f = x.float()
        return (f * torch.rsqrt(f.square().mean(-1, keepdim=True) + self.eps) * (1 + self.weight.float())).to(x.dtype)


def linear(inputs, outputs):
    return nn.Linear(inputs, outputs, bias=False)


class DeltaNet(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.keys, self.values = c.key_heads * c.delta_dim, c.value_heads * c.delta_dim
        channels = 2 * self.keys + self.values
        self.in_proj_qkv, self.in_proj_z = linear(c.hidden, channels), linear(c.hidden, self.values)
        self.in_proj_b, self.in_proj_a = linear(c.hidden, c.value_heads), linear(c.hidden, c.value_heads)
        self.conv1d = nn.Conv1d(channels, channels, 4, groups=channels, bias=False)
        steps = torch.exp(torch.rand(c.value_heads) * math.log(100) + math.log(1e-3))
        self.dt_bias = nn.Parameter(steps + torch.log(-torch.expm1(-steps)))
        self.A_log = nn.Parameter(torch.empty(c.value_heads).uniform_(1, 16).log())
        self.norm = nn.Module()
        self.norm.weight = nn.Parameter(torch.ones(c.delta_dim))
        self.out_proj = linear(self.values, c.hidden)

    def mixed(self, u, before, place):
        """silu of the short convolution; before: the three rows before u; place [batch, time]: a row's place in its
        document, so that no tap reaches into the one before; None for one document."""
        time = u.shape[1]
        rows, w = torch.cat([before, u], 1), self.conv1d.weight.float()
        total = w[:, 0, 3] * u.float()
        for back in range(1, 4):
            tap = w[:, 0, 3 - back] * rows[:, 3 - back : 3 - back + time].float()
            total = total + (tap if place is None else tap * (place >= back)[..., None])
        return F.silu(total), rows

    def forward(self, x, state=None, place=None, lengths=None, low=torch.float32):
        """state: (conv rows, delta state) before x. lengths [batch]: rows of x that count, the rest is padding.
        Returns the output and the state after the last row that counts."""
        c, (batch, time, _) = self.c, x.shape
        u, z, b, a = self.in_proj_qkv(x), self.in_proj_z(x), self.in_proj_b(x), self.in_proj_a(x)
        with torch.autocast(x.device.type, enabled=False):
            before = torch.zeros_like(u[:, :1]).expand(-1, 3, -1) if state is None else state[0]
            h, rows = self.mixed(u, before, place)
            q, k, v = h.split([self.keys, self.keys, self.values], -1)
            q, k = q.view(batch, time, c.key_heads, -1), k.view(batch, time, c.key_heads, -1)
            v = v.view(batch, time, c.value_heads, -1)

            def unit(t):
                return t * torch.rsqrt(t.square().sum(-1, keepdim=True) + 1e-6)

            def repeated(t):
                return t[:, :, :, None].expand(-1, -1, -1, c.value_heads // c.key_heads, -1).reshape(v.shape)

            q, k = repeated(unit(q) * c.delta_dim**-0.5), repeated(unit(k))
            beta, g = b.float().sigmoid(), -self.A_log.float().exp() * F.softplus(a.float() + self.dt_bias.float())
            if place is not None:
                g = torch.where((place == 0)[..., None], delta_rule.RESET, g)
            if lengths is not None:
                counts = torch.arange(time, device=x.device)[None, :, None] < lengths[:, None, None]
                beta, g = beta * counts, g * counts
            if state is not None and time == 1:
                y, last = delta_rule.step(*(t[:, 0] for t in (q, k, v, beta, g)), state[1])
                y = y[:, None]
            else:
                pad = -time % delta_rule.CHUNK
                if pad:
                    q, k, v = (F.pad(t, (0, 0, 0, 0, 0, pad)) for t in (q, k, v))
                    beta, g = (F.pad(t, (0, 0, 0, pad)) for t in (beta, g))
                y, last = delta_rule.chunked(q, k, v, beta, g, low)
                y = y[:, :time]
            y = self.norm.weight.float() * y * torch.rsqrt(y.square().mean(-1, keepdim=True) + c.eps)
            y = y * F.silu(z.float().view(batch, time, c.value_heads, -1))
            if lengths is None:
                conv = rows[:, -3:]
            else:
                at = lengths[:, None] + torch.arange(3, device=x.device)
                conv = rows.gather(1, at[..., None].expand(-1, -1, rows.shape[-1]))
        return self.out_proj(y.reshape(batch, time, -1).to(x.dtype)), (conv, last)


def rotate(x, angles):
    """x [batch, heads, time, head_dim]; angles: cos and sin [.., time, rotary]."""
    cos, sin = angles
    n = cos.shape[-1]
    part = x[..., :n].float()
    a, b = part.chunk(2, -1)
    return torch.cat([(part * cos + torch.cat([-b, a], -1) * sin).to(x.dtype), x[..., n:]], -1)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.q_proj, self.k_proj = linear(c.hidden, 2 * c.heads * c.head_dim), linear(c.hidden, c.kv_heads * c.head_dim)
        self.v_proj, self.o_proj = linear(c.hidden, c.kv_heads * c.head_dim), linear(c.heads * c.head_dim, c.hidden)
        self.q_norm, self.k_norm = Norm(c.head_dim, c.eps), Norm(c.head_dim, c.eps)

    def forward(self, x, angles, bias, past=None, place=None):
        """bias: added to the scores [batch or 1, 1, time, keys], or None for causal. past: (k, v) to extend, or, with
        place [batch], a cache in which each row's one new entry is written at its place."""
        c, (batch, time, _) = self.c, x.shape
        q, gate = self.q_proj(x).view(batch, time, c.heads, 2 * c.head_dim).chunk(2, -1)
        q = rotate(self.q_norm(q).transpose(1, 2), angles)
        k = rotate(self.k_norm(self.k_proj(x).view(batch, time, c.kv_heads, -1)).transpose(1, 2), angles)
        v = self.v_proj(x).view(batch, time, c.kv_heads, -1).transpose(1, 2)
        if place is not None:
            row = torch.arange(batch, device=x.device)
            past[0][row, :, place], past[1][row, :, place] = k[:, :, 0], v[:, :, 0]
            k, v = past
        elif past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        each = c.heads // c.kv_heads
        y = F.scaled_dot_product_attention(
            q, k.repeat_interleave(each, 1), v.repeat_interleave(each, 1), attn_mask=bias, is_causal=bias is None
        )
        y = y.transpose(1, 2) * torch.sigmoid(gate)
        return self.o_proj(y.reshape(batch, time, -1)), (k, v)


class Mlp(nn.Module):
    def __init__(self, hidden, inner):
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = (
            linear(hidden, inner),
            linear(hidden, inner),
            linear(inner, hidden),
        )

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Mixture(nn.Module):
    """Every expert on every token, the unchosen ones with weight 0: at this size faster than sorting."""

    def __init__(self, c):
        super().__init__()
        self.c, self.gate, self.experts = c, linear(c.hidden, c.experts), nn.Module()
        self.experts.gate_up_proj = nn.Parameter(torch.empty(c.experts, 2 * c.expert_size, c.hidden))
        self.experts.down_proj = nn.Parameter(torch.empty(c.experts, c.hidden, c.expert_size))
        self.shared_expert, self.shared_expert_gate = Mlp(c.hidden, c.shared_size), linear(c.hidden, 1)

    def forward(self, x):
        """Returns the output, the balance loss (1 when even) and each expert's share of the tokens."""
        c, t = self.c, x.reshape(-1, self.c.hidden)
        with torch.autocast(x.device.type, enabled=False):
            p = (t.float() @ self.gate.weight.float().T).softmax(-1)
        top = p.topk(c.top_k, -1).values
        chosen = (p >= top[:, -1:]).float()
        weights = p * chosen / top.sum(-1, keepdim=True)
        gate_up = F.linear(t, self.experts.gate_up_proj.view(-1, c.hidden)).view(-1, c.experts, 2, c.expert_size)
        inner = F.silu(gate_up[:, :, 0]) * gate_up[:, :, 1] * weights[..., None].to(gate_up.dtype)
        down = self.experts.down_proj.transpose(1, 2).reshape(c.experts * c.expert_size, c.hidden)
        y = inner.view(-1, c.experts * c.expert_size) @ down.to(inner.dtype)
        y = y + torch.sigmoid(self.shared_expert_gate(t)) * self.shared_expert(t)
        use = chosen.mean(0)
        return y.view_as(x), c.experts / c.top_k * (use * p.mean(0)).sum(), use.detach()


class Block(nn.Module):
    def __init__(self, c, full):
        super().__init__()
        self.full = full
        if full:
            self.self_attn = Attention(c)
        else:
            self.linear_attn = DeltaNet(c)
        self.mlp = Mixture(c)
        self.input_layernorm, self.post_attention_layernorm = Norm(c.hidden, c.eps), Norm(c.hidden, c.eps)

    def forward(self, x, *mixer_inputs):
        """mixer_inputs: of Attention or DeltaNet after x."""
        mixer = self.self_attn if self.full else self.linear_attn
        y, state = mixer(self.input_layernorm(x), *mixer_inputs)
        x = x + y
        y, balance, use = self.mlp(self.post_attention_layernorm(x))
        return x + y, balance, use, state


class Head(nn.Module):
    """The drafting head: from the trunk's normed hidden at t and the token t + 1 to the token t + 2."""

    def __init__(self, c):
        super().__init__()
        self.pre_fc_norm_embedding, self.pre_fc_norm_hidden, self.norm = (Norm(c.hidden, c.eps) for _ in range(3))
        self.fc, self.layers = linear(2 * c.hidden, c.hidden), nn.ModuleList([Block(c, True)])

    def joined(self, embedding, hidden):
        return self.fc(torch.cat([self.pre_fc_norm_embedding(embedding), self.pre_fc_norm_hidden(hidden)], -1))


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, self.model = c, nn.Module()
        self.model.embed_tokens, self.model.norm = nn.Embedding(c.vocab, c.hidden), Norm(c.hidden, c.eps)
        self.model.layers = nn.ModuleList([Block(c, c.is_full(i)) for i in range(c.layers)])
        self.mtp = Head(c)
        for name, p in self.named_parameters():
            if p.dim() >= 2 and "conv1d" not in name:
                std = 0.02 if "embed" in name else 0.5 * p.shape[-1] ** -0.5
                if any(part in name for part in ("o_proj", "out_proj", "down_proj")):
                    std /= math.sqrt(2 * c.layers)
                nn.init.normal_(p, std=std)
        frequencies = c.theta ** -(torch.arange(0, c.rotary, 2) / c.rotary)
        angles = torch.outer(torch.arange(c.context).float(), frequencies).repeat(1, 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def angles(self, first, last):
        return self.cos[first:last], self.sin[first:last]

    def trunk(self, embedding, bias=None, place=None, lengths=None, low=torch.float32):
        """[batch, time, hidden]: normed hiddens, the sum of balance losses, expert shares, states."""
        x, balance, uses, states, angles = embedding, 0.0, [], [], self.angles(0, embedding.shape[1])
        for block in self.model.layers:
            inputs = (angles, bias) if block.full else (None, place, lengths, low)
            x, one, use, state = block(x, *inputs)
            balance = balance + one
            uses.append(use)
            states.append(state)
        return self.model.norm(x), balance, uses, states

    def draft_first(self, hidden, next_embedding, bias=None):
        """Of every place t: the head's normed output for t + 2, the balance loss, the head's keys and values."""
        x, balance, _, kv = self.mtp.layers[0](
            self.mtp.joined(next_embedding, hidden), self.angles(0, hidden.shape[1]), bias
        )
        return self.mtp.norm(x), balance, kv

    def draft_next(self, output, embedding, past, depth, bias):
        """Step depth >= 2 of every place's own chain: true history, then the chain's entries (the diagonals of
        past)."""
        n = output.shape[1]
        angles = self.angles(depth - 1, n + depth - 1)
        x, _, _, kv = self.mtp.layers[0](self.mtp.joined(embedding, output), angles, bias, past)
        return self.mtp.norm(x), kv

    def logits(self, hidden):
        return F.linear(hidden, self.model.embed_tokens.weight)


def document_places(ids):
    """[batch, time]: which document a token is in, and its place there. A document ends with the end of text."""
    ends = (ids == END_OF_TEXT_ID).long()
    document = ends.cumsum(1) - ends
    position = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
    starts = torch.cat([torch.ones_like(ends[:, :1]), ends[:, :-1]], 1)
    return document, position - torch.where(starts > 0, position, 0).cummax(1).values


def attention_bias(document, depth, dtype):
    """[batch, 1, time, depth x time], 0 or -inf: of step `depth` of the head, of the trunk for 1."""
    n = document.shape[1]
    i = torch.arange(n, device=document.device)
    history = (i[:, None] >= i[None]) & (document[:, :, None] == document[:, None, :])
    own = (i[:, None] == i[None]).expand_as(history)
    seen = torch.cat([history] + [own] * (depth - 1), -1)
    return torch.zeros(seen.shape, dtype=dtype, device=document.device).masked_fill(~seen, float("-inf"))[:, None]
