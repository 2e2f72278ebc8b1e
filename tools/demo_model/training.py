"""The training loop: one step as one CUDA graph, checkpoints, resuming."""

import json
import math
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from .model import Config, Model, attention_bias, document_places
from .optimiser import Optimiser
from .rows import EXTRA, LENGTH, WEIGHT

WARM_UP = 100  # steps
SHORT_ONLY = 0.05  # share of the steps whose tasks are all short
SHORT_LATER = 0.1  # share of the tasks' rows that are short after that
SOFT = 0.5  # share of the head's loss that goes towards the trunk's own distribution


def cross_entropy(hidden, table, target, weights):
    """Weighted mean over the places, tied logits."""
    logits = F.linear(hidden, table).float().flatten(0, 1)
    losses = F.cross_entropy(logits, target.flatten(), reduction="none")
    return (losses * weights.flatten()).sum() / weights.sum().clamp(min=1)


def draft_losses(output, teacher, table, target, weights):
    """The head's cross entropy with the text, and with the distribution of the trunk that will judge the draft."""
    logits = F.linear(output, table).float().flatten(0, 1).log_softmax(-1)
    wanted = F.linear(teacher, table.detach()).float().flatten(0, 1).softmax(-1)
    hard = -logits.gather(1, target.flatten()[:, None])[:, 0]
    soft = -(wanted * logits).sum(-1)
    w, total = weights.flatten(), weights.sum().clamp(min=1)
    return (hard * w).sum() / total, (soft * w).sum() / total


def shifted(x, by):
    """Row t of the result is row t + by; zeros at the end."""
    return torch.cat([x[:, by:], torch.zeros_like(x[:, :by])], 1)


def losses(model, functions, ids, weights, options):
    """Total, the parts to log [main, depths 1.., balance] and the experts' shares of one batch [rows, LENGTH +
    EXTRA]."""
    main_loss, draft_loss = functions
    ids = ids.long()
    table = model.model.embed_tokens.weight
    embedding = F.embedding(ids, table).to(options.dtype)
    document, place = document_places(ids[:, :LENGTH])
    bias = attention_bias(document, 1, options.dtype)
    hidden, balance, uses, _ = model.trunk(embedding[:, :LENGTH], bias, place, None, options.dtype)
    main = main_loss(hidden, table, ids[:, 1 : LENGTH + 1], weights[:, 1 : LENGTH + 1])
    teacher = hidden.detach()
    few = max(1, len(ids) // 4)  # the deeper steps of the chain on a part of the rows
    output, more, kv = model.draft_first(hidden, embedding[:, 1 : LENGTH + 1], bias)
    balance = (balance + more) / (model.c.layers + 1)
    parts, total, n = [main.detach()], main + options.balance * balance, len(ids)
    for depth in range(1, options.depth + 1):
        if depth > 1:
            n = few
            output, kv = output[:n], tuple(t[:n] for t in kv)
            output, kv = model.draft_next(
                output,
                embedding[:n, depth : LENGTH + depth],
                kv,
                depth,
                attention_bias(document[:n], depth, options.dtype),
            )
        judged = weights[:n, depth + 1 : LENGTH + depth + 1] * (
            torch.arange(LENGTH, device=ids.device) < LENGTH - depth
        )
        hard, soft = draft_loss(
            output, shifted(teacher[:n], depth), table, ids[:n, depth + 1 : LENGTH + depth + 1], judged
        )
        parts.append(hard.detach())
        total = total + (options.draft if depth == 1 else options.draft_deep) * ((1 - SOFT) * hard + SOFT * soft)
    return total, torch.stack(parts + [balance.detach()]), torch.stack(uses)


class Batches:
    """Rows of source and rows of tasks, all on the device; the order follows from the seed."""

    def __init__(self, folder, device, options):
        def load(name, kind):
            return torch.from_numpy(np.load(Path(folder) / name).astype(kind)).to(device)

        self.source = load("train.npy", np.int16)
        self.tasks = {
            kind: (load(f"{kind}_ids.npy", np.int16), load(f"{kind}_weights.npy", np.uint8))
            for kind in ("short", "long")
        }
        self.options, self.device = options, device
        self.random = torch.Generator().manual_seed(options.seed)
        self.queues, self.epochs, self.shift = {"source": [], "short": [], "long": []}, {}, 0

    def take(self, kind, count, total):
        taken = []
        while len(taken) < count:
            if not self.queues[kind]:
                self.queues[kind] = torch.randperm(total, generator=self.random).tolist()
                self.epochs[kind] = self.epochs.get(kind, 0) + 1
                if kind == "source":
                    self.shift = int(torch.randint(0, LENGTH, (1,), generator=self.random))
            more = self.queues[kind][: count - len(taken)]
            self.queues[kind] = self.queues[kind][len(more) :]
            taken += more
        return torch.tensor(taken, device=self.device)

    def next(self, done):
        """(ids, weights) [rows, LENGTH + EXTRA]; done: share of the steps."""
        o, span = self.options, LENGTH + EXTRA
        first = self.take("source", o.source_rows, len(self.source) // LENGTH - 3) * LENGTH + self.shift
        ids = [self.source[first[:, None] + torch.arange(span, device=self.device)]]
        weights = [torch.full((o.source_rows, span), o.source_weight, device=self.device)]
        tasks = o.rows - o.source_rows
        share = tasks * (1.0 if done < SHORT_ONLY else SHORT_LATER)
        short = int(share) + int(torch.rand((), generator=self.random) < share - int(share))
        for kind, count in (("short", short), ("long", tasks - short)):
            if count:
                chosen = self.take(kind, count, len(self.tasks[kind][0]))
                ids.append(self.tasks[kind][0][chosen])
                weights.append(self.tasks[kind][1][chosen] / WEIGHT)
        # The first quarter of the rows trains the head's deeper steps: half of it is tasks.
        return torch.cat(ids).roll(o.rows // 8, 0), torch.cat(weights).roll(o.rows // 8, 0)

    def state(self):
        return {"random": self.random.get_state(), "queues": self.queues, "epochs": self.epochs, "shift": self.shift}

    def restore(self, state):
        self.random.set_state(state["random"])
        self.queues, self.epochs, self.shift = state["queues"], state["epochs"], state["shift"]


class Step:
    """One training step on static inputs, replayed as a CUDA graph where there is one."""

    def __init__(self, model, options, device):
        self.model, self.options, self.device = model, options, device
        self.optimiser = Optimiser(model, options)
        self.functions = (cross_entropy, draft_losses)
        if options.compile:
            torch._dynamo.config.automatic_dynamic_shapes = False
            torch._dynamo.config.cache_size_limit = 64
            torch._functorch.config.donated_buffer = False
            for block in [*model.model.layers, *model.mtp.layers]:
                block.compile()
            self.functions = tuple(torch.compile(function) for function in self.functions)
        self.ids = torch.randint(0, model.c.vocab, (options.rows, LENGTH + EXTRA), dtype=torch.int16, device=device)
        self.weights = torch.ones(self.ids.shape, device=device)
        self.factor = torch.zeros((), device=device)
        self.graph = None

    def body(self):
        with torch.autocast(self.device, torch.bfloat16, enabled=self.options.dtype == torch.bfloat16):
            total, parts, uses = losses(self.model, self.functions, self.ids, self.weights, self.options)
        total.backward()
        self.optimiser.step(self.factor)
        return parts, uses

    def warm(self):
        """Compiles and captures; leaves parameters and the optimiser's state as at the start. Returns the losses."""
        if self.device == "cpu":
            parts, _ = self.body()
            self.model.zero_grad()
        else:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    self.model.zero_grad(set_to_none=True)
                    parts, _ = self.body()
            torch.cuda.current_stream().wait_stream(side)
            torch.cuda.synchronize()
            self.model.zero_grad(set_to_none=True)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.result = self.body()
        for tensor in self.optimiser.tensors():
            tensor.zero_()
        return parts.tolist()

    def __call__(self, ids, weights, factor):
        self.ids.copy_(ids)
        self.weights.copy_(weights)
        self.factor.fill_(factor)
        if self.graph:
            self.graph.replay()
            return self.result[0].clone(), self.result[1]
        result = self.body()
        self.model.zero_grad(set_to_none=True)
        return result


def save(path, model, step, batches, progress):
    temporary = Path(f"{path}.part")
    torch.save(
        {
            "model": model.state_dict(),
            "optimiser": step.optimiser.tensors(),
            "batches": batches.state(),
            "progress": progress,
        },
        temporary,
    )
    temporary.replace(path)


def restore(path, model, step, batches):
    """Returns the progress."""
    kept = torch.load(path, map_location="cpu", weights_only=False)
    with torch.no_grad():
        for name, value in model.state_dict().items():
            value.copy_(kept["model"][name])
        for tensor, value in zip(step.optimiser.tensors(), kept["optimiser"], strict=True):
            tensor.copy_(value)
    batches.restore(kept["batches"])
    return kept["progress"]


def rate_factor(step, steps, cool):
    """Warm-up, level, then down to almost nothing over the last share `cool` of the steps."""
    return min(1.0, (step + 1) / WARM_UP) * min(1.0, (1 - step / steps) / cool + 0.01)


def entropy(uses):
    """Mean over the layers of the expert shares' entropy, 1 when even."""
    p = uses.float() / uses.float().sum(-1, keepdim=True)
    return float((-(p * (p + 1e-9).log()).sum(-1)).mean() / math.log(p.shape[-1]))


def train(folder, checkpoint, options, log):
    """Trains from the checkpoint if there is one, until options.steps or for options.seconds. Without options.steps,
    the steps that fit options.total_seconds are counted once and kept. Returns (model, progress)."""
    device = options.device
    torch.manual_seed(options.seed)
    if device == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = True
    began = time.time()
    model = Model(Config()).to(device)
    step = Step(model, options, device)
    log(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters")
    first = step.warm()
    log(f"ready after {time.time() - began:.0f} s, losses {first}")
    while not (Path(folder) / "data.json").exists():
        time.sleep(0.5)
    batches = Batches(folder, device, options)
    progress = {"step": 0, "steps": options.steps, "seconds": 0.0, "curve": []}
    if Path(checkpoint).exists():
        progress = restore(checkpoint, model, step, batches)
        log(f"resumed at step {progress['step']} of {progress['steps']}")
        if options.steps:
            progress["steps"] = options.steps
    start, before, gathered, next_log, timed = time.time(), progress["seconds"], [], 0.0, None
    n = progress["step"]
    while True:
        now = time.time()
        steps = progress["steps"]
        if (steps and n >= steps) or now - start >= options.seconds or (options.stop_at and now >= options.stop_at):
            break
        if not steps and n == 30:
            if device == "cuda":
                torch.cuda.synchronize()
            timed = time.time()
        if not steps and n == 80:
            if device == "cuda":
                torch.cuda.synchronize()
            each = (time.time() - timed) / 50
            progress["steps"] = steps = int(options.total_seconds / each)
            log(
                f"{each * 1e3:.1f} ms a step, {options.rows * LENGTH / each / 1e3:.0f} thousand tokens a second: {steps} steps"
            )
        assumed = steps or 10_000
        parts, uses = step(*batches.next(n / assumed), rate_factor(n, assumed, options.cool))
        gathered.append(parts)
        n += 1
        if n % 10 == 0 and device == "cuda":
            torch.cuda.synchronize()
        if now - start >= next_log:
            next_log += options.log_every
            mean = torch.stack(gathered).mean(0).tolist()
            gathered = []
            progress["curve"].append(
                {
                    "step": n,
                    "tokens": n * options.rows * LENGTH,
                    "main": round(mean[0], 4),
                    "draft": [round(x, 4) for x in mean[1:-1]],
                    "balance": round(mean[-1], 4),
                    "expert_entropy": round(entropy(uses), 4),
                    "rate": round(rate_factor(n, assumed, options.cool), 4),
                }
            )
            log(f"{before + now - start:6.1f} s {json.dumps(progress['curve'][-1])} passes {batches.epochs}")
    if device == "cuda":
        torch.cuda.synchronize()
    progress["step"], progress["seconds"] = n, before + time.time() - start
    progress["passes"] = dict(batches.epochs)
    save(checkpoint, model, step, batches, progress)
    log(f"{n} steps in {progress['seconds']:.0f} s of training")
    clean = Model(Config()).to(device)
    clean.load_state_dict(model.state_dict())
    return clean.eval(), progress
