"""The gated delta rule: in chunks for training and prompts, and one token at a time."""

import torch

CHUNK = 64
RESET = -30.0  # log decay that forgets what came before, in reach of fp32 sums


def inverse_unit_lower(a):
    """(I + a)^-1 of strictly lower triangular a: blocks of 16 by an exact Neumann product, larger ones by halves."""
    n = a.shape[-1]
    if n <= 16:

        def product(x, y):
            return (x.unsqueeze(-1) * y.unsqueeze(-3)).sum(-2)

        power = -a
        result = torch.eye(n, device=a.device, dtype=a.dtype) + power
        for _ in range(3):
            power = product(power, power)
            result = result + product(result, power)
        return result
    h = n // 2
    both = inverse_unit_lower(torch.stack([a[..., :h, :h], a[..., h:, h:]]))
    low = -(both[1] @ a[..., h:, :h] @ both[0])
    return torch.cat([torch.cat([both[0], torch.zeros_like(low)], -1), torch.cat([low, both[1]], -1)], -2)


class InverseUnitLower(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        result = inverse_unit_lower(a)
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, grad):
        (result,) = ctx.saved_tensors
        turned = result.transpose(-1, -2)
        return -(turned @ grad @ turned).tril(-1)


def chunked(q, k, v, beta, g, low):
    """q, k, v [batch, time, heads, dim] fp32, beta and the log decay g [batch, time, heads]; time a multiple of CHUNK.
    low: the type of the large products' factors. Returns y like v and the last state [batch, heads, key, value].

    Within a chunk, with c the sum of g up to a row, the updates u solve (I + A) u = beta (v - e^c k S), where
    A = beta k k^T e^(c_i - c_j) below the diagonal; the state goes on as S <- e^c_last S + (k e^(c_last - c))^T u.
    """
    batch, time, heads, dim = q.shape
    chunks = time // CHUNK
    q, k, v = (
        x.view(batch, chunks, CHUNK, heads, dim).permute(1, 0, 3, 2, 4).reshape(chunks, batch * heads, CHUNK, dim)
        for x in (q, k, v)
    )
    beta, g = (
        x.view(batch, chunks, CHUNK, heads).permute(1, 0, 3, 2).reshape(chunks, batch * heads, CHUNK) for x in (beta, g)
    )
    c = g.cumsum(-1)
    i = torch.arange(CHUNK, device=q.device)
    decay = torch.exp(torch.where(i[:, None] >= i[None], c[..., :, None] - c[..., None, :], float("-inf")))
    kt = k.transpose(-1, -2)
    solve = InverseUnitLower.apply((beta[..., None] * (k @ kt) * decay).tril(-1))
    rights = torch.cat([beta[..., None] * v, (beta * c.exp())[..., None] * k], -1)
    uw = solve.to(low) @ rights.to(low)  # [.., CHUNK, value and key]
    last = c[..., -1:]
    kd = (k * torch.exp(last - c)[..., None]).transpose(-1, -2)
    moved = (kd.to(low) @ uw).float()
    added = moved[..., :dim].unbind(0)
    kept = (torch.exp(last)[..., None] * torch.eye(dim, device=q.device) - moved[..., dim:]).unbind(0)
    states = [torch.zeros_like(added[0]), added[0]]
    for j in range(1, chunks):
        states.append(torch.baddbmm(added[j], kept[j], states[-1]))
    before = torch.stack(states[:-1]).to(low)
    u = uw[..., :dim] - uw[..., dim:] @ before
    scores = (q.to(low) @ kt.to(low)) * decay
    y = (q * c.exp()[..., None]).to(low) @ before + scores.to(low) @ u
    y = y.float().view(chunks, batch, heads, CHUNK, dim).permute(1, 0, 3, 2, 4).reshape(batch, time, heads, dim)
    return y, states[-1].view(batch, heads, dim, dim)


def step(q, k, v, beta, g, state):
    """One token: q, k, v [batch, heads, dim], state [batch, heads, key, value]."""
    state = state * g.exp()[..., None, None]
    change = beta[..., None] * (v - torch.einsum("bhkv,bhk->bhv", state, k))
    state = state + k[..., None] * change[..., None, :]
    return torch.einsum("bhkv,bhk->bhv", state, q), state
