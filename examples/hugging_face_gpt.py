"""A small GPT-2, built from a config, learns Python by characters in the Trainer of transformers: dense, then sparse.

It reads modules of the standard library, so the losses differ a little between versions of Python. The quality is the
loss in nats per character on a module that it has not read. GPT-2's embeddings, tied to its head, are not pruned.

    pip install 'asni[transformers]'
    python examples/hugging_face_gpt.py

Seed 0, torch 2.13.0, transformers 5.23.0, Python 3.11.7, 21 seconds on 2 CPU cores:

    dense: loss 2.350, 98,304 nonzero prunable weights, 374,444 bytes packed, 449,536 unpacked
    sparse: loss 2.387, 19,661 nonzero prunable weights, 117,270 bytes packed, 449,536 unpacked
"""

import argparse
import email.message
import inspect
import json.decoder
import logging
import pathlib
import tempfile
import textwrap
from types import ModuleType

import torch
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, PrinterCallback, Trainer, TrainingArguments, set_seed

import asni
from asni.integrations.transformers import SparsityCallback

CONTEXT = 64
SPARSITY = 0.8


def main() -> None:
    torch.set_num_threads(1)  # the fastest for a network this small
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run("dense", folder)
        run("sparse", folder, SparsityCallback(asni.GMP, sparsity=SPARSITY))


def run(name: str, folder: pathlib.Path, *callbacks: SparsityCallback) -> None:
    set_seed(0)
    config = GPT2Config(
        vocab_size=128,
        n_positions=CONTEXT,
        n_embd=64,
        n_layer=2,
        n_head=4,
        embd_pdrop=0.0,
        resid_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = GPT2LMHeadModel(config)
    model.loss_type = "ForCausalLM"  # transformers would choose it too, with a warning
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=str(folder),
            max_steps=300,
            per_device_train_batch_size=16,
            per_device_eval_batch_size=64,
            learning_rate=3e-3,
            warmup_steps=30,
            lr_scheduler_type="cosine",
            logging_strategy="no",
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
        ),
        train_dataset=sequences(argparse, email.message, inspect, logging, pathlib, tempfile),
        eval_dataset=sequences(textwrap, json.decoder),
        callbacks=list(callbacks),
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    loss = trainer.evaluate()["eval_loss"]
    nonzeros = sum(int(weight.count_nonzero()) for weight in asni.prunable(model).values())
    packed = asni.pack(model, folder / f"{name}.asni")
    print(
        f"{name}: loss {loss:.3f}, {nonzeros:,} nonzero prunable weights, "
        f"{packed.bytes:,} bytes packed, {packed.dense_bytes:,} unpacked"
    )


def sequences(*modules: ModuleType) -> list[dict[str, Tensor]]:
    text = "".join(map(inspect.getsource, modules)).encode("ascii", errors="replace")
    tokens = torch.tensor(list(text))
    whole = tokens[: len(tokens) // CONTEXT * CONTEXT].view(-1, CONTEXT)
    return [{"input_ids": part, "labels": part} for part in whole]


if __name__ == "__main__":
    main()
