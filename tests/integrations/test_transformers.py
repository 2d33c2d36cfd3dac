"""The callback for the Trainer of Hugging Face transformers, with the real Trainer and a small GPT-2."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GPT2LMHeadModel, Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

import asni
from asni.errors import UsageError
from asni.integrations.transformers import SparsityCallback
from tests.integrations.small_gpt import (
    PRUNABLE,
    TENTH,
    Sentences,
    alive,
    assert_equal_bits,
    block_weights,
    small_gpt,
    small_mixture,
)

STEPS = 12  # 5 batches in 3 accumulated steps, 4 times


@pytest.fixture(scope="module")
def pruned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoints 5, 10 and 12 of a training with GMP."""
    directory = tmp_path_factory.mktemp("pruned")
    gpt_trainer(directory, SparsityCallback(asni.GMP, sparsity=0.9)).train()
    return directory


def gpt_trainer(
    directory: Path, *callbacks: TrainerCallback, model: torch.nn.Module | None = None, **arguments: Any
) -> Any:
    """A `Trainer`, whose `model` is not None."""
    settings: dict[str, Any] = {
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 2,
        "num_train_epochs": 4,
        "learning_rate": 1e-2,
        "logging_steps": 2,
        "save_steps": 5,
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": True,
    }
    return Trainer(
        model=small_gpt() if model is None else model,
        args=TrainingArguments(output_dir=str(directory), **(settings | arguments)),
        train_dataset=Sentences(10),
        eval_dataset=Sentences(4),
        callbacks=list(callbacks),
    )


@pytest.mark.parametrize(
    ("method", "bf16"),
    [
        (asni.GMP, False),
        (asni.ASNI, True),
        (asni.GMP, True),
        (asni.RigL, True),
        (asni.SET, True),
        (asni.Continuous, True),
    ],
)
def test_a_training_resumed_in_the_middle_of_an_epoch_ends_bit_for_bit_where_the_undisturbed_one_ends(
    tmp_path: Path, method: Any, bf16: bool
) -> None:
    whole = gpt_trainer(tmp_path, SparsityCallback(method, sparsity=0.9), bf16=bf16)
    whole.train()
    callback = SparsityCallback(method, sparsity=0.9)
    resumed = gpt_trainer(tmp_path, callback, bf16=bf16)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-5"))
    assert_equal_bits(resumed.model, whole.model)
    assert "asni" not in resumed.optimizer.param_groups[0]
    assert callback.pruner.steps == STEPS
    assert sum(int(mask.sum()) for mask in callback.pruner.masks.values()) == TENTH


def test_the_last_checkpoint_of_the_directory_is_found(pruned: Path, tmp_path: Path) -> None:
    shutil.copytree(pruned / "checkpoint-10", tmp_path / "checkpoint-10")
    resumed = gpt_trainer(tmp_path, SparsityCallback(asni.GMP, sparsity=0.9))
    resumed.train(resume_from_checkpoint=True)
    assert_equal_bits(resumed.model, GPT2LMHeadModel.from_pretrained(pruned / "checkpoint-12"))


def test_a_checkpoint_of_any_name_and_place_resumes(pruned: Path, tmp_path: Path) -> None:
    shutil.copytree(pruned / "checkpoint-5", tmp_path / "kept")
    resumed = gpt_trainer(tmp_path / "second", SparsityCallback(asni.GMP, sparsity=0.9))
    resumed.train(resume_from_checkpoint=str(tmp_path / "kept"))
    assert_equal_bits(resumed.model, GPT2LMHeadModel.from_pretrained(pruned / "checkpoint-12"))


def test_weights_in_bfloat16_are_pruned_to_the_target(tmp_path: Path) -> None:
    trainer = gpt_trainer(
        tmp_path, SparsityCallback(asni.GMP, sparsity=0.9), model=small_gpt().bfloat16(), save_strategy="no"
    )
    trainer.train()
    assert alive(trainer.model) == TENTH


def test_of_a_gpt_2_the_transposed_layers_are_pruned_and_the_tied_embedding_is_not() -> None:
    weights = asni.prunable(small_gpt())
    assert sum(weight.numel() for weight in weights.values()) == PRUNABLE
    assert all(".h." in name for name in weights)


def test_the_fused_experts_of_a_mixture_are_pruned(tmp_path: Path) -> None:
    callback = SparsityCallback(asni.GMP, sparsity=0.9)
    trainer = gpt_trainer(tmp_path, callback, model=small_mixture(), save_strategy="no", max_steps=4)
    trainer.train()
    experts = trainer.model.model.layers[0].mlp.experts
    masks = callback.pruner.masks
    assert torch.equal(experts.down_proj != 0, masks["model.layers.0.mlp.experts.down_proj"])
    assert experts.down_proj.shape == (4, 16, 24)
    assert float((experts.gate_up_proj == 0).float().mean()) > 0.8


def test_soft_thresholds_are_learnt(tmp_path: Path) -> None:
    callback = SparsityCallback(asni.STR, decay=0.5)
    gpt_trainer(tmp_path, callback, save_strategy="no", max_steps=4).train()
    assert callback.pruner.steps == 4


def test_max_steps_are_the_steps_of_the_schedule(tmp_path: Path) -> None:
    callback = SparsityCallback(asni.GMP, sparsity=0.9)
    trainer = gpt_trainer(tmp_path, callback, max_steps=7, save_strategy="no")
    trainer.train()
    assert (callback.pruner.steps, alive(trainer.model)) == (7, TENTH)


def test_the_logs_hold_the_sparsity(tmp_path: Path) -> None:
    trainer = gpt_trainer(tmp_path, SparsityCallback(asni.GMP, sparsity=0.9), save_strategy="no")
    trainer.train()
    logged = [entry["sparsity"] for entry in trainer.state.log_history if "loss" in entry]
    assert logged == sorted(logged)
    assert len(logged) == STEPS // 2
    assert logged[-1] == pytest.approx(0.9, abs=1e-4)


class StopAt(TrainerCallback):
    """Stops as `EarlyStoppingCallback` does."""

    def __init__(self, step: int):
        self.step = step

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        control.should_training_stop = state.global_step >= self.step


def test_a_training_that_stops_early_is_pruned_to_the_target_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trainer = gpt_trainer(tmp_path, SparsityCallback(asni.GMP, sparsity=0.9), StopAt(5), save_strategy="no")
    trainer.train()
    assert trainer.state.global_step == 5
    assert alive(trainer.model) == TENTH
    assert "GMP finished after step 5 of 12" in caplog.text


# The loss falls, so the "best" by the largest loss is the first checkpoint.
FIRST_IS_BEST: dict[str, Any] = {
    "eval_strategy": "steps",
    "eval_steps": 5,
    "load_best_model_at_end": True,
    "metric_for_best_model": "loss",
    "greater_is_better": True,
}


@pytest.mark.parametrize("method", [asni.GMP, asni.RigL])
def test_the_best_model_loaded_at_the_end_keeps_the_largest_of_its_own_weights(tmp_path: Path, method: Any) -> None:
    callback = SparsityCallback(method, sparsity=0.9)
    trainer = gpt_trainer(tmp_path, callback, **FIRST_IS_BEST)
    trainer.train()
    best = block_weights(GPT2LMHeadModel.from_pretrained(tmp_path / "checkpoint-5"))
    assert sum(int(mask.sum()) for mask in callback.pruner.masks.values()) == TENTH
    for name, weight in block_weights(trainer.model).items():
        assert torch.equal(weight, best[name] * callback.pruner.masks[name]), name


class WithoutOptimizer(TrainerCallback):
    """Frees space, as a user's script may."""

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        (Path(str(args.output_dir)) / f"checkpoint-{state.global_step}" / "optimizer.pt").unlink()


def test_a_best_model_whose_masks_are_lost_is_not_passed_off_as_sparse(tmp_path: Path) -> None:
    callbacks = SparsityCallback(asni.GMP, sparsity=0.9), WithoutOptimizer()
    with pytest.raises(UsageError, match=r"checkpoint-5, the best model, has no state of a pruner"):
        gpt_trainer(tmp_path, *callbacks, **FIRST_IS_BEST).train()


def test_a_best_model_whose_masks_would_not_be_saved_is_refused_before_the_training(tmp_path: Path) -> None:
    trainer = gpt_trainer(tmp_path, SparsityCallback(asni.GMP, sparsity=0.9), save_only_model=True, **FIRST_IS_BEST)
    with pytest.raises(UsageError, match=r"save_only_model=False"):
        trainer.train()
    assert trainer.state.global_step == 0


@pytest.mark.parametrize(
    ("callbacks", "save_only_model"), [([], False), ([SparsityCallback(asni.GMP, sparsity=0.9)], True)]
)
@pytest.mark.filterwarnings("ignore:.*lr_scheduler.step.*before.*optimizer.step:UserWarning")
def test_a_checkpoint_without_the_state_of_the_pruner_is_refused(
    tmp_path: Path, callbacks: list[TrainerCallback], save_only_model: bool
) -> None:
    gpt_trainer(tmp_path, *callbacks, StopAt(5), save_only_model=save_only_model).train()
    resumed = gpt_trainer(tmp_path, SparsityCallback(asni.GMP, sparsity=0.9))
    with pytest.raises(UsageError, match=r"step 5 has no state of a pruner.*SparsityCallback"):
        resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-5"))


def test_a_training_that_went_on_without_the_callback_is_refused(pruned: Path, tmp_path: Path) -> None:
    gpt_trainer(tmp_path).train(resume_from_checkpoint=str(pruned / "checkpoint-5"))
    resumed = gpt_trainer(tmp_path, SparsityCallback(asni.GMP, sparsity=0.9))
    with pytest.raises(UsageError, match=r"step 5, but the checkpoint is that of step 10"):
        resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-10"))


@pytest.mark.parametrize(
    ("callback", "arguments", "difference"),
    [
        (lambda: SparsityCallback(asni.GMP, sparsity=0.8), {}, r"sparsity.*0\.9.*0\.8|sparsity.*0\.8.*0\.9"),
        (lambda: SparsityCallback(asni.RigL, sparsity=0.9), {}, r"GMP.*RigL|RigL.*GMP"),
        (lambda: SparsityCallback(asni.GMP, sparsity=0.9), {"num_train_epochs": 5}, r"12\b.*15\b|15\b.*12\b"),
    ],
)
def test_the_state_of_another_sparsity_method_or_length_is_refused(
    pruned: Path, tmp_path: Path, callback: Any, arguments: dict[str, Any], difference: str
) -> None:
    resumed = gpt_trainer(tmp_path, callback(), **arguments)
    with pytest.raises(UsageError, match=difference):
        resumed.train(resume_from_checkpoint=str(pruned / "checkpoint-5"))


class GradientNorms(TrainerCallback):
    """The norm of the gradients that the optimiser uses, at each step."""

    def __init__(self, callback: SparsityCallback):
        self.callback = callback
        self.norms: list[float] = []

    def on_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        gradients = [weight.grad for weight in kwargs["model"].parameters() if weight.grad is not None]
        self.norms.append(float(torch.nn.utils.get_total_norm(gradients)))


def test_the_gradient_norm_counts_living_weights_only(tmp_path: Path) -> None:
    callback = SparsityCallback(asni.GMP, sparsity=0.9)
    norms = GradientNorms(callback)
    trainer = gpt_trainer(tmp_path, callback, norms, logging_steps=1, max_grad_norm=1e9, save_strategy="no")
    trainer.train()
    logged = [entry["grad_norm"] for entry in trainer.state.log_history if "grad_norm" in entry]
    assert logged == pytest.approx(norms.norms, rel=1e-5)


class RigLByHand(TrainerCallback):
    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.pruner = asni.RigL(kwargs["model"], kwargs["optimizer"], sparsity=0.9, total_steps=STEPS)


def test_rigl_grows_by_the_gradients_of_dead_weights_too(tmp_path: Path) -> None:
    models = []
    for callback in (SparsityCallback(asni.RigL, sparsity=0.9), RigLByHand()):
        trainer = gpt_trainer(tmp_path, callback, max_grad_norm=0, save_strategy="no")
        trainer.train()
        models.append(trainer.model)
    assert_equal_bits(*models)


def test_a_second_training_without_the_callback_is_not_pruned(tmp_path: Path) -> None:
    callback = SparsityCallback(asni.Magnitude, sparsity=0.5)
    trainer = gpt_trainer(tmp_path, callback, save_strategy="no", max_steps=4)
    trainer.train()
    first = callback.pruner
    trainer.remove_callback(callback)
    trainer.train()
    assert first.steps == 4
    assert alive(trainer.model) > 12_288


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")
def test_of_a_lora_only_the_adapter_is_pruned(tmp_path: Path) -> None:
    from peft import LoraConfig, get_peft_model

    base = block_weights(small_gpt())
    lora = LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True)
    callback = SparsityCallback(asni.GMP, sparsity=0.5)
    trainer = gpt_trainer(tmp_path, callback, model=get_peft_model(small_gpt(), lora), save_strategy="no")
    trainer.train()
    assert sorted(name.split(".")[-3] for name in callback.pruner.masks) == ["lora_A", "lora_A", "lora_B", "lora_B"]
    assert sum(int(mask.sum()) for mask in callback.pruner.masks.values()) == 512  # of 2 * (4 * 32 + 96 * 4)
    trained = {
        name.removeprefix("base_model.model.").replace(".base_layer", ""): weight
        for name, weight in trainer.model.named_parameters()
    }
    assert all(torch.equal(trained[name], weight) for name, weight in base.items())
