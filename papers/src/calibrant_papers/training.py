"""Train one network on one image set, resumably, and return its held-out logits.

The images stay on the device as bytes; an epoch's shuffling, crops and flips are one indexing of
them. All randomness comes from the seed: starting weights from one stream, batches from another.
A training stops cleanly when its time is up, in the middle of an epoch too, and goes on from its
checkpoint as if it had never stopped.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from calibrant import FileError
from calibrant.files import replacing
from calibrant_papers.images import TEST, TRAIN, VALIDATION, Bytes, ImageSet
from calibrant_papers.logits import HeldOut, accuracy_and_ece, scores
from calibrant_papers.networks import build
from calibrant_papers.recipes import Recipe
from calibrant_papers.resident import Part, check_split, pixel_scale, shuffled_crops

EVALUATION_BATCH = 500  # divides all usual numbers of rows: cuDNN meets one shape
SAVE_EVERY = 30.0  # seconds between checkpoints


class OutOfTime(Exception):  # noqa: N818 - no error: the training goes on from its checkpoint
    """The time is up before the last epoch; the checkpoint holds all that was done."""


@dataclass(frozen=True)
class Epoch:
    """What is known after an epoch."""

    number: int
    of: int
    loss: float
    val_accuracy: float
    val_ece: float
    seconds_left: float

    def __str__(self) -> str:
        return (
            f"epoch {self.number}/{self.of}  loss {self.loss:.4f}  "
            f"val accuracy {self.val_accuracy:.2%}  val ECE {self.val_ece:.2%}  "
            f"{math.ceil(self.seconds_left)} s left"
        )


@dataclass(frozen=True)
class Trained:
    """The held-out logits (float32) of a trained network, its card, and the network at work."""

    held_out: HeldOut
    card: dict[str, Any]
    logits_of: Callable[[Bytes], NDArray[np.float32]]  # of any images (n, 32, 32, channels)


def train(
    data: ImageSet,
    network: str,
    recipe: Recipe,
    *,
    seed: int,
    device: str = "cpu",
    checkpoint: Path | None = None,
    save_every: float = SAVE_EVERY,
    report_every: float = 0.0,
    until: float = math.inf,
    compiled: bool = False,
    report: Callable[[Epoch], None] = lambda epoch: None,
) -> Trained:
    """Train to the recipe's last epoch, going on from ``checkpoint`` where that file exists.

    When ``time.monotonic()`` passes ``until``, the state is saved and ``OutOfTime`` raised. An
    epoch is reported when ``report_every`` seconds have passed since the last one that was, for a
    report takes a pass over the validation rows; the last epoch always is.
    """
    run = _Run.start(data, network, recipe, seed, torch.device(device), compiled)
    if checkpoint is not None and checkpoint.exists():
        run.resume(checkpoint)
    clock = _Clock(run, recipe)
    saved = reported = time.monotonic()
    while run.epoch < recipe.epochs:
        loss = run.train_epoch(until)
        now = clock.tick()
        last = run.epoch == recipe.epochs
        if checkpoint is not None and (loss is None or last or now - saved >= save_every):
            run.save(checkpoint)
            saved = now
        if loss is None:
            raise OutOfTime(f"stopped in epoch {run.epoch + 1} of {recipe.epochs}")
        if last or now - reported >= report_every:
            report(run.summary(loss, clock.seconds_left()))
            reported = now
    held_out = run.held_out()
    return Trained(held_out, {**run.card(), **scores(held_out)}, run.logits_of)


def rate_at(step: int, steps: int, recipe: Recipe) -> float:
    """The learning rate of a step, counted from 0: a line up, then half a cosine down.

    >>> recipe = Recipe(1, 1, rate=0.1, weight_decay=0, crop=0, flip=False, warm_up=0.5)
    >>> [round(rate_at(step, 8, recipe), 3) for step in range(8)]
    [0.025, 0.05, 0.075, 0.1, 0.1, 0.085, 0.05, 0.015]
    """
    climb = max(round(recipe.warm_up * steps), 1)
    if step < climb:
        return recipe.rate * (step + 1) / climb
    share = (step - climb) / max(steps - climb, 1)
    return recipe.rate * (1 + math.cos(math.pi * share)) / 2


# --- one run ----------------------------------------------------------------------------------


@dataclass
class _Run:
    """The state of a training: what a checkpoint holds, and what it is made from."""

    job: dict[str, Any]  # what this run is; a checkpoint of another job is refused
    recipe: Recipe
    device: torch.device
    parts: dict[int, Part]
    mean: Tensor
    std: Tensor
    network: nn.Module
    forward: Callable[[Tensor], Tensor]  # the network, compiled or not
    optimiser: torch.optim.Optimizer
    generator: torch.Generator
    summary_of_network: str
    origin: str
    epoch: int = 0
    seconds: float = 0.0
    # Of the epoch under way: batches done, their summed loss, the random state it was drawn from.
    batch: int = 0
    loss: Tensor | None = None
    drawn_from: Tensor | None = None

    @classmethod
    def start(
        cls,
        data: ImageSet,
        network: str,
        recipe: Recipe,
        seed: int,
        device: torch.device,
        compiled: bool,
    ) -> _Run:
        check_split(data)
        parts = {part: Part.of(data, part, device) for part in (TRAIN, VALIDATION, TEST)}
        module = build(network, data.n_classes, data.images.shape[3], seed)
        module.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        mean, std = pixel_scale(data.images[data.rows(TRAIN)], device)
        return cls(
            job={
                "dataset": data.name,
                "network": network,
                "seed": seed,
                "rows": [len(part.labels) for part in parts.values()],
                "split": data.origin,
                **asdict(recipe),
            },
            recipe=recipe,
            device=device,
            parts=parts,
            mean=mean,
            std=std,
            network=module,
            forward=torch.compile(module) if compiled else module,
            optimiser=_optimiser(module, recipe, device),
            generator=torch.Generator(device).manual_seed(seed),
            summary_of_network=module.summary,
            origin=data.origin,
        )

    def train_epoch(self, until: float = math.inf) -> float | None:
        """Finish a pass over the train rows; return the mean loss, or None where time is up."""
        part = self.parts[TRAIN]
        self.drawn_from = self.generator.get_state()
        images, order = shuffled_crops(part.images, self.recipe, self.generator)
        labels = part.labels[order]
        batch = min(self.recipe.batch, len(labels))
        # A last, smaller batch is left out: another few rows miss every epoch.
        batches = len(labels) // batch
        self.loss = torch.zeros((), device=self.device) if self.loss is None else self.loss
        self.network.train()
        while self.batch < batches:
            if time.monotonic() > until:
                return None
            rows = slice(self.batch * batch, (self.batch + 1) * batch)
            step = self.epoch * batches + self.batch
            rate = rate_at(step, self.recipe.epochs * batches, self.recipe)
            self.loss += self._step(images[rows], labels[rows], rate)
            self.batch += 1
        loss = float(self.loss) / batches
        self.epoch, self.batch, self.loss, self.drawn_from = self.epoch + 1, 0, None, None
        if not math.isfinite(loss):
            raise ArithmeticError(f"the loss is {loss} in epoch {self.epoch}: lower the rate")
        return loss

    def _step(self, images: Tensor, labels: Tensor, rate: float) -> Tensor:
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.zero_grad(set_to_none=True)
        # bfloat16 has float32's range, so the loss needs no scaling.
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            logits = self.forward(self._scaled(images))
        loss = nn.functional.cross_entropy(logits.float(), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        return loss.detach()

    def _scaled(self, images: Tensor) -> Tensor:
        """Bytes (n, h, w, c) to standardised (n, c, h, w), whose strides are channels-last."""
        return ((images.float() - self.mean) / self.std).permute(0, 3, 1, 2)

    def logits(self, part: int) -> NDArray[np.float32]:
        """Logits of a part."""
        return self._logits(self.parts[part].images)

    def logits_of(self, images: Bytes) -> NDArray[np.float32]:
        """Logits of other images."""
        return self._logits(torch.from_numpy(images).to(self.device))

    @torch.no_grad()
    def _logits(self, images: Tensor) -> NDArray[np.float32]:
        """Computed in float32: bfloat16 would round them into ties."""
        self.network.eval()
        chunks = torch.split(images, EVALUATION_BATCH)
        with _untuned():
            logits = torch.cat([self.network(self._scaled(chunk)) for chunk in chunks])
        return logits.float().cpu().numpy()

    def labels(self, part: int) -> NDArray[np.int64]:
        return self.parts[part].labels.cpu().numpy()

    def summary(self, loss: float, seconds_left: float) -> Epoch:
        accuracy, ece = accuracy_and_ece(self.logits(VALIDATION), self.labels(VALIDATION))
        return Epoch(self.epoch, self.recipe.epochs, loss, accuracy, ece, seconds_left)

    def held_out(self) -> HeldOut:
        return HeldOut(
            self.logits(VALIDATION), self.labels(VALIDATION), self.logits(TEST), self.labels(TEST)
        )

    def card(self) -> dict[str, Any]:
        train, val, test = self.job["rows"]
        return {
            "dataset": (
                f"{self.job['dataset']} ({self.origin}); {train} images to train, "
                f"{val} to validate, never trained on, {test} to test"
            ),
            "network": self.summary_of_network,
            "parameters": sum(weights.numel() for weights in self.network.parameters()),
            "recipe": self.recipe.describe(),
            "epochs": self.recipe.epochs,
            "seed": self.job["seed"],
            "seconds": round(self.seconds, 1),
            "device": _device_name(self.device),
            "torch_version": torch.__version__,
        }

    # A checkpoint holds tensors, numbers and texts only, so that loading it runs no code.

    def save(self, path: Path) -> None:
        state = {
            "job": self.job,
            "epoch": self.epoch,  # the rate schedule follows from it
            "seconds": self.seconds,
            "network": self.network.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            # An epoch under way is drawn again, and its first batches are passed over.
            "generator": self.generator.get_state() if self.drawn_from is None else self.drawn_from,
            "batch": self.batch,
            "loss": None if self.loss is None else float(self.loss),
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:  # an interrupted save leaves the last whole one
            torch.save(state, file)

    def resume(self, path: Path) -> None:
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
            job = state["job"]
        except Exception as error:  # a damaged file makes torch raise nearly anything
            raise FileError(f"{path} is not a checkpoint of a training: {error}") from error
        if job != self.job:
            differing = sorted(key for key in self.job if job.get(key) != self.job[key])
            raise FileError(
                f"{path} belongs to another training (other {', '.join(differing)}): "
                "delete it to start anew"
            )
        self.network.load_state_dict(state["network"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.generator.set_state(state["generator"])
        self.epoch, self.seconds, self.batch = state["epoch"], state["seconds"], state["batch"]
        loss = state["loss"]
        self.loss = None if loss is None else torch.tensor(loss, device=self.device)


@dataclass
class _Clock:
    """How long a training took, earlier runs included, and how long it may still take."""

    run: _Run
    recipe: Recipe

    def __post_init__(self) -> None:
        self.began, self.before, self.first = time.monotonic(), self.run.seconds, self.run.epoch

    def tick(self) -> float:
        """Write the seconds into the run; return the time."""
        now = time.monotonic()
        self.run.seconds = self.before + now - self.began
        return now

    def seconds_left(self) -> float:
        """At the pace of this run."""
        pace = (time.monotonic() - self.began) / (self.run.epoch - self.first)
        return pace * (self.recipe.epochs - self.run.epoch)


def _optimiser(module: nn.Module, recipe: Recipe, device: torch.device) -> torch.optim.Optimizer:
    return torch.optim.SGD(
        module.parameters(),
        lr=recipe.rate,
        momentum=recipe.momentum,
        weight_decay=recipe.weight_decay,
        nesterov=True,
        fused=device.type == "cuda",  # small networks wait for kernel launches
    )


@contextmanager
def _untuned() -> Iterator[None]:
    """Trying cuDNN's algorithms for the shapes of an evaluation takes longer than it saves."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = False
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
