"""Muon for the matrices, AdamW for the rest."""

import re

import torch


class Muon:
    """Momentum, made orthogonal by Newton-Schulz steps on all matrices of one shape at once; each expert's matrices,
    and the gate and up halves of one, count as matrices of their own."""

    def __init__(self, named, rate, decay):
        self.rate, self.decay, self.groups = rate, decay, {}
        for name, p in named:
            rows = p.shape[-2] // (2 if "gate_up" in name else 1)
            self.groups.setdefault((rows, p.shape[-1]), []).append(p)
        self.momentum = {shape: None for shape in self.groups}

    @torch.no_grad()
    def step(self, factor):
        for (rows, columns), parameters in self.groups.items():
            grad = torch.cat([p.grad.view(-1, rows, columns) for p in parameters])
            kept = self.momentum[rows, columns]
            kept = grad.mul(0.05) if kept is None else kept.lerp_(grad, 0.05)
            self.momentum[rows, columns] = kept
            x = grad.lerp(kept, 0.95).bfloat16()
            if rows > columns:
                x = x.mT
            x = x / (x.float().norm(dim=(-2, -1), keepdim=True) + 1e-7).bfloat16()
            for _ in range(5):
                a = x @ x.mT
                b = torch.baddbmm(a, a, a, beta=-4.7750, alpha=2.0315)
                x = torch.baddbmm(x, b, x, beta=3.4445)
            x = (x.mT if rows > columns else x).float()
            first = 0
            for p in parameters:
                n = p.numel() // (rows * columns)
                rate = self.rate * max(1, rows / columns) ** 0.5
                p.mul_(1 - self.rate * factor * self.decay).sub_(
                    x[first : first + n].reshape(p.shape) * (rate * factor)
                )
                first += n


def split(model):
    """(matrices, rest), each as (name, parameter) pairs."""
    matrices, rest = [], []
    for name, p in model.named_parameters():
        small = p.dim() < 2 or re.search(r"embed|conv1d|in_proj_[ab]\.|mlp\.gate\.|shared_expert_gate", name)
        (rest if small else matrices).append((name, p))
    return matrices, rest


class Optimiser:
    def __init__(self, model, options):
        matrices, rest = split(model)
        self.options, self.rest = options, [p for _, p in rest]
        fast = self.rest[0].device.type == "cuda"
        self.muon = Muon(matrices, options.muon_rate, options.muon_decay)
        self.rate = torch.tensor(options.adam_rate, device=self.rest[0].device)
        self.adam = torch.optim.AdamW(
            self.rest,
            lr=self.rate if fast else options.adam_rate,
            betas=(0.9, 0.95),
            weight_decay=0.01,
            fused=fast,
            capturable=fast,
        )

    def step(self, factor):
        """factor: of the learning rates, a scalar tensor."""
        torch.nn.utils.clip_grad_norm_(self.rest, 1.0)
        for group in self.adam.param_groups:
            if torch.is_tensor(group["lr"]):
                group["lr"].copy_(self.options.adam_rate * factor)
            else:
                group["lr"] = self.options.adam_rate * float(factor)
        self.adam.step()
        self.muon.step(factor)

    def tensors(self):
        """All state, in a fixed order, once a step has made it."""
        found = [self.adam.state[p][key] for p in self.rest for key in sorted(self.adam.state[p])]
        return found + [self.muon.momentum[shape] for shape in sorted(self.muon.momentum)]
