"""The learning rate of each epoch: a pure function of the epoch."""

from math import cos, pi

from asni.recipes.sections import Training


def lr_at(training: Training, epoch: int) -> float:
    """The learning rate in `epoch` (counted from 0) under the recipe's policy.

    >>> training = Training(epochs=50, batch_size=60, optimizer="adam", lr=1.2e-3)
    >>> lr_at(training, 0), lr_at(training, 49)
    (0.0012, 0.0012)
    """
    if training.lr_policy == "constant":
        return training.lr
    return training.lr * warm_cosine(epoch, training.epochs, training.delta, training.warmup_epochs)


def warm_cosine(epoch: int, epochs: int, delta: float, warmup: int) -> float:
    """The fraction of the highest rate: `(e + 1) / w` while `e < w`, then a half-cosine over the remaining epochs,
    `(1 + cos(pi (e - w) / ((1 + delta) (E - w)))) / 2`, so that delta alone sets the final rate.

    >>> [round(warm_cosine(e, 90, 0.04, warmup=10), 4) for e in (0, 8, 9, 10, 50, 90)]
    [0.1, 0.9, 1.0, 1.0, 0.5302, 0.0036]
    >>> round(warm_cosine(160, 160, 0.05, warmup=0), 4)
    0.0056
    """
    if epoch < warmup:
        return (epoch + 1) / warmup
    return (1 + cos(pi * (epoch - warmup) / ((1 + delta) * (epochs - warmup)))) / 2
